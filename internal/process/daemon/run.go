package daemon

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/descriptor"
	"github.com/actionproof/mediator/internal/logs"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/tracing"
)

// A Service is the part of a process that differs from the other three. [Run] calls its methods in this order. A
// service embeds its *Process, which has empty Open, ReadSecrets and Close methods.
type Service[C any] interface {
	// Plan plans a configuration: the first one, and the one of each reload.
	Plan(c *C) (Plan, error)
	// Roles keeps the process and its first configuration, and makes the signers of its roles. Their keys sign nothing
	// yet.
	Roles(p *Process, first *C) error
	// Open opens files and databases, before the process confines itself.
	Open(ctx context.Context) error
	// ReadSecrets reads secrets for which the process logs in.
	ReadSecrets(ctx context.Context) error
	// Begin returns the handler of the endpoint, and starts the work that needs no certificates. All keys are open.
	Begin(ctx context.Context, group *errgroup.Group) (http.Handler, error)
	// Serve starts the other work. Then the process is ready.
	Serve(ctx context.Context, group *errgroup.Group, first *Configured[C]) error
	// Next makes all parts that a reload changes. The function that it returns applies them.
	Next(ctx context.Context, next *Configured[C]) (apply func() error, err error)
	// Close closes what is open, also after a start that failed.
	Close()
}

// Configured is a configuration with the files that it names, all checked.
type Configured[C any] struct {
	Config   *C
	Plan     Plan
	Observer *Observer
	Deployment
}

func (c *Configured[C]) status() ConfigStatus {
	s := ConfigStatus{Configuration: evidence.HashBytes(c.Plan.File.Raw), Environment: c.Plan.Environment,
		Policy: c.Plan.Policy}
	if c.Strict != nil {
		s.Manifest = c.Strict.ManifestHash
	}
	return s
}

type running[C any] struct {
	*Process
	service Service[C]
	load    func(path string) (*C, error)
	first   *Configured[C] // as read at the start
}

// Run runs the process called name, with the configuration at path, until ctx ends. All checks that can refuse the
// start come before openKeys, because a login can use up its credentials.
func Run[C any, P config.Configuration[C]](ctx context.Context, name, path string, stderr io.Writer,
	service Service[C]) error {
	c, err := config.Load[C, P](path)
	if err != nil {
		return err
	}
	plan, err := service.Plan(c)
	if err != nil {
		return err
	}
	if err := endpoint.CheckPlaces(path, plan.Listens...); err != nil {
		return err
	}
	log, err := logs.New(plan.Log, name, stderr)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	logs.TakeLibraries(log)
	p, err := New(ctx, log, plan.Process)
	if err != nil {
		return err
	}
	defer p.Keys.Close()
	if t := plan.Tracing; t != nil {
		p.Tracing = tracing.New(tracing.Options{Service: "mediator-" + name, Collector: t.Of(), Sample: t.Sample,
			Log: log, Metrics: p.Metrics})
	}
	return (&running[C]{p, service, config.Load[C, P], &Configured[C]{Config: c, Plan: plan}}).run(ctx)
}

func (r *running[C]) run(ctx context.Context) error {
	plan := r.first.Plan
	if err := r.service.Roles(r.Process, r.first.Config); err != nil {
		return err
	}
	r.first.Observer = plan.Observer(r.Process.Roles)
	r.Observer.Store(r.first.Observer)
	if err := r.checkFiles(plan); err != nil {
		return err
	}
	defer r.service.Close()
	for _, step := range []func(context.Context) error{
		r.service.Open,
		func(context.Context) error { return r.Confine(plan, r.first.Observer) },
		r.service.ReadSecrets,
		r.openKeys,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	open, err := r.listen(plan)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	handler, err := r.service.Begin(ctx, group)
	if err != nil {
		closeAll(open)
		return err
	}
	if t := r.Tracing; t != nil {
		handler = tracing.Handler(t, handler)
		group.Go(func() error { t.Run(ctx); return nil })
	}
	for _, p := range open {
		group.Go(func() error { return endpoint.Serve(ctx, p, p.serves(handler), p.limits, p.grace, r.Log) })
	}
	if r.Identity != nil {
		group.Go(func() error { r.KeepIdentity(ctx); return nil })
	}
	group.Go(func() error { r.Reloader.Watch(ctx); return nil })
	r.registers(ctx, group, plan)
	group.Go(func() error { return r.start(ctx, group) })
	return group.Wait()
}

type port struct {
	net.Listener
	serves func(endpoint http.Handler) http.Handler
	limits endpoint.Limits
	grace  time.Duration
}

func closeAll(open []port) {
	for _, p := range open {
		p.Close()
	}
}

// listen opens the addresses of the endpoint, and that of the probes if there is one.
func (r *running[C]) listen(plan Plan) (open []port, err error) {
	defer func() {
		if err != nil {
			closeAll(open)
		}
	}()
	for _, e := range plan.Endpoint.Parts() {
		listen := endpoint.Listen
		if e.TCP != "" && plan.Tokens != (config.Tokens{}) {
			listen = endpoint.ListenOpen
		}
		l, err := listen(e, r.Identity, r.Log)
		if err != nil {
			return open, fmt.Errorf("listen at %s: %w", e, err)
		}
		if e.TCP != "" {
			r.Address = l.Addr()
		}
		if plan.Descriptors {
			l = descriptor.Listener(l)
		}
		open = append(open, port{Listener: l, grace: plan.Grace, serves: func(h http.Handler) http.Handler {
			return r.admitting(e, plan.Tokens, h)
		}})
	}
	if plan.Probes != nil {
		l, err := net.Listen("tcp", plan.Probes.Listen)
		if err != nil {
			return open, fmt.Errorf("probes.listen: %w", err)
		}
		open = append(open, port{l, func(http.Handler) http.Handler { return r.probes() }, endpoint.PublicLimits,
			time.Second})
	}
	return open, nil
}

// start starts the work that needs the files of the deployment, once they are there.
func (r *running[C]) start(ctx context.Context, group *errgroup.Group) (err error) {
	first, plan := r.first, r.first.Plan
	if first.Deployment, err = r.WaitForDeployment(ctx, plan); err != nil {
		return err
	}
	if err := r.service.Serve(ctx, group, first); err != nil {
		return err
	}
	r.Reloader.Start(first.status(), r.reload)
	r.Ready.Store(true)
	context.AfterFunc(ctx, func() { r.Ready.Store(false) })
	r.Log.Info("ready", zap.String("configuration", first.status().Configuration))
	r.FollowBundle(ctx, plan.Trust) // the process has a trust by now that verifies what its keys sign
	return nil
}

// reload reads the configuration and the files that it names once, and applies all of it. If it fails, nothing changes.
func (r *running[C]) reload(ctx context.Context) (ConfigStatus, error) {
	c, err := r.load(r.first.Plan.File.Path)
	if err != nil {
		return ConfigStatus{}, err
	}
	plan, err := r.service.Plan(c)
	if err != nil {
		return ConfigStatus{}, err
	}
	next := &Configured[C]{Config: c, Plan: plan, Observer: plan.Observer(r.Process.Roles)}
	err = cmp.Or(r.checkBound(*r.first.Config, *c, plan.Trust), r.checkConfined(plan, next.Observer))
	if err != nil {
		return ConfigStatus{}, err
	}
	if next.Manifest, next.Strict, err = readManifest(plan); err != nil {
		return ConfigStatus{}, err
	}
	if next.Strict != nil {
		if next.Trust, err = r.readTrust(plan.Trust, next.Strict); err != nil {
			return ConfigStatus{}, err
		}
		// The new trust must not undo anything, such as the retirement of a key version.
		if err := next.Trust.Verifier.Trust().Succeeds(r.Trust.current().Verifier.Trust()); err != nil {
			return ConfigStatus{}, err
		}
	}
	apply, err := r.service.Next(ctx, next)
	if err != nil {
		return ConfigStatus{}, err
	}
	if err := holds(next.Observer.Observe(ctx, 0)); err != nil {
		return ConfigStatus{}, err
	}
	if err := apply(); err != nil {
		return ConfigStatus{}, err
	}
	r.Observer.Store(next.Observer)
	return next.status(), nil
}
