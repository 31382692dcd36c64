package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/trigger"
)

func triggerCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "trigger --config FILE", Short: "Run the trigger service: events in, origin proofs and receipts out", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runTrigger(c.Context(), path, c.ErrOrStderr()) },
	}
	configFlag(c, &path, "trigger.yaml")
	return c
}

// triggerService is the validated form of triggerConfig.
type triggerService struct {
	loaded[triggerConfig]
	internal endpoint
	sources  []trigger.Source
	secretOf map[[2]string]string // the source that a webhook secret of a scheme is of
}

func loadTrigger(path string) (*triggerService, error) {
	l, err := load[triggerConfig](path)
	if err != nil {
		return nil, err
	}
	c, f := l.T, findings{}
	f.need("state", c.State, "trust.registry", c.Trust.Registry, "trust.auditor", c.Trust.Auditor, "trust.bundle", c.Trust.Bundle,
		"keys.origin.audience", c.Keys.Origin.Audience, "keys.receipt.audience", c.Keys.Receipt.Audience)
	c.Custody.check(&f)
	c.Confine.check(&f)
	c.Trust.check(&f)
	c.Agent.check(&f, "internal", c.Internal.UIDs)
	c.Log.check(&f)
	if c.Listen != "" {
		checkAddress("listen", c.Listen, &f)
	}
	checkKeys(&f, namedKey{"keys.origin", c.Keys.Origin.keyConfig}, namedKey{"keys.receipt", c.Keys.Receipt.keyConfig})
	if (c.TLSCertificate == "") != (c.TLSKey == "") {
		f.add("tlsCertificate", "goes together with tlsKey")
	}
	if c.Budget < 0 {
		f.add("budget", "%d is less than 0", c.Budget)
	}
	t := &triggerService{loaded: l, internal: c.Internal.endpoint("internal", &f, l.file), secretOf: make(map[[2]string]string)}
	for i, s := range c.Sources {
		if slices.ContainsFunc(c.Sources[:i], func(o sourceConfig) bool { return o.Name == s.Name }) {
			f.add(fmt.Sprintf("sources[%d].name", i), "%q is the name of another source", s.Name)
		}
		if s.Queue != nil && c.Agent.UID != nil && slices.Contains(s.Queue.Owners, *c.Agent.UID) {
			f.add(fmt.Sprintf("sources[%d].queue.owners", i), "%d is agent.uid: the agent would be the reason of its own posts", *c.Agent.UID)
		}
		source, err := t.source(s)
		if err != nil {
			f.add(fmt.Sprintf("sources[%d] (%s)", i, s.Name), "%v", err)
			continue
		}
		t.sources = append(t.sources, source)
	}
	return t, f.err(path)
}

// source makes one source of events; exactly one kind must be set.
func (t *triggerService) source(s sourceConfig) (trigger.Source, error) {
	kinds := 0
	for _, set := range []bool{s.GitHub != nil, s.StandardWebhooks != nil, s.Engine != nil, s.Schedule != nil, s.Queue != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 || s.Name == "" {
		return nil, fmt.Errorf("needs a name and exactly one of github, standardWebhooks, engine, schedule, queue")
	}
	switch {
	case s.GitHub != nil:
		secrets, err := t.secrets(s.Name, "github", s.GitHub.SecretFiles)
		if err != nil {
			return nil, err
		}
		return trigger.NewGitHub(s.Name, secrets, s.GitHub.Events, s.GitHub.Human)
	case s.StandardWebhooks != nil:
		secrets, err := t.secrets(s.Name, "standard", s.StandardWebhooks.SecretFiles)
		if err != nil {
			return nil, err
		}
		return trigger.NewStandard(s.Name, secrets)
	case s.Engine != nil:
		secrets, err := t.secrets(s.Name, "standard", s.Engine.SecretFiles)
		if err != nil {
			return nil, err
		}
		return trigger.NewEngine(s.Name, secrets)
	case s.Schedule != nil:
		return newSchedule(s.Name, s.Schedule)
	default:
		q := trigger.NewQueue(s.Name, t.file(s.Queue.Dir), time.Duration(s.Queue.Poll))
		q.Owners = s.Queue.Owners
		return q, nil
	}
}

func newSchedule(name string, c *scheduleConfig) (*trigger.Schedule, error) {
	s, err := trigger.NewSchedule(name, c.Cron, c.Timezone, c.Payload)
	switch {
	case err != nil:
		return nil, err
	case c.Missed == "latest":
		s.Missed = trigger.FireLatest
	case c.Missed != "" && c.Missed != "skip":
		return nil, fmt.Errorf("missed: %q is neither skip nor latest", c.Missed)
	}
	return s, nil
}

// secrets reads a source's secrets. No two sources of one scheme share one: a delivery is good once for each source, and what somebody has
// signed for one would be good for the other, to which it may be worth more. What is signed in one scheme is malformed in the other.
func (t *triggerService) secrets(source, scheme string, files []string) ([]string, error) {
	var out []string
	for _, name := range files {
		s, err := readSecret(t.file(name), 16)
		if err != nil {
			return nil, err
		}
		if of, taken := t.secretOf[[2]string{scheme, s}]; taken && of != source {
			return nil, fmt.Errorf("the secret in %s is that of the source %s too: whoever signs for one could sign for the other", name, of)
		}
		t.secretOf[[2]string{scheme, s}] = source
		out = append(out, s)
	}
	return out, nil
}

// triggerProcess is the trigger service as it runs. What can change meanwhile is where events come from.
type triggerProcess struct {
	*triggerService // as it was read at the start: what is bound to the process stays so
	*process

	service *trigger.Service
	inForce *triggerService // changed by the reloader alone
}

// runTrigger runs the trigger service until ctx ends.
func runTrigger(ctx context.Context, path string, stderr io.Writer) error {
	t, err := loadTrigger(path)
	if err != nil {
		return err
	}
	log, err := newLogger(t.T.Log, "trigger", stderr)
	if err != nil {
		return err
	}
	common, err := openProcess(log, t.T.Custody, t.file)
	if err != nil {
		return err
	}
	defer common.keys.Close()
	p := &triggerProcess{triggerService: t, process: common, inForce: t}
	return p.run(ctx)
}

// run makes the parts and serves until ctx ends.
func (p *triggerProcess) run(ctx context.Context) error {
	if err := p.openService(ctx); err != nil {
		return err
	}
	defer p.service.Close()
	if err := p.confine(p.reach(p.looking.Load()), p.T.Confine, p.file); err != nil {
		return err
	}
	internal, err := p.internal.listen(p.log)
	if err != nil {
		return err
	}
	var ready atomic.Bool
	mux := p.mux(ready.Load)
	layersHandler(mux, p.confined)
	mux.Handle("/", trigger.NewServer(p.service))
	var webhooks net.Listener
	if p.T.Listen != "" {
		if webhooks, err = p.listenWebhooks(); err != nil {
			return errors.Join(fmt.Errorf("webhooks: %w", err), internal.Close())
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	const grace = 10 * time.Second
	group.Go(func() error { return serveHTTP(ctx, internal, p.internal.guard(mux), bounds{}, grace, p.log) })
	group.Go(func() error { p.reload.watch(ctx); return nil })
	group.Go(func() error { return p.service.Run(ctx) })
	if webhooks != nil {
		group.Go(func() error { return serveHTTP(ctx, webhooks, p.service.Webhooks(), public, grace, p.log) })
	}
	group.Go(func() error { return p.begin(ctx, &ready) })
	return group.Wait()
}

// openService opens the keys and the events, and looks at the deployment.
func (p *triggerProcess) openService(ctx context.Context) error {
	c := p.T
	origin, err := newIssuer(ctx, p.process, evidence.TriggerOriginProofKind, c.Keys.Origin.keyConfig, c.Keys.Origin.Audience)
	if err != nil {
		return err
	}
	receipt, err := newIssuer(ctx, p.process, evidence.TriggerReceiptKind, c.Keys.Receipt.keyConfig, c.Keys.Receipt.Audience)
	if err != nil {
		return err
	}
	observer := p.observer(p.roles)
	if err := observer.start(ctx); err != nil {
		return err
	}
	p.looking.Store(observer)
	p.service, err = trigger.New(ctx, trigger.Options{
		Path: filepath.Join(p.file(c.State), "events.db"), Origin: origin, Receipt: receipt, Sources: p.sources,
		MaxAge: time.Duration(c.MaxAge), Budget: c.Budget, Now: time.Now, Log: p.log,
	})
	return err
}

// begin waits for the trust, and is ready then.
func (p *triggerProcess) begin(ctx context.Context, ready *atomic.Bool) error {
	trust := p.T.Trust.in(p.file)
	if err := p.openRoots(ctx, trust); err != nil {
		return err
	}
	certified, err := p.openCertificates(ctx, trust)
	if err != nil {
		return err
	}
	p.reload.begin(p.configured(), p.take)
	ready.Store(true)
	p.log.Info("ready")
	certified.watch(ctx)
	return nil
}

func (t *triggerService) configured() configured {
	return configured{Configuration: evidence.HashBytes(t.raw)}
}

// take has events come from the sources that the files name now, or fails and has changed nothing.
func (p *triggerProcess) take(ctx context.Context) (configured, error) {
	next, err := loadTrigger(p.path)
	if err != nil {
		return configured{}, err
	}
	if err := p.fits(next); err != nil {
		return configured{}, err
	}
	observer := next.observer(p.roles)
	if err := p.checkWithin(next.reach(observer), next.T.Confine, next.file); err != nil {
		return configured{}, err
	}
	if err := observer.start(ctx); err != nil {
		return configured{}, err
	}
	next.keep(p.inForce)
	if err := p.service.SetSources(next.sources); err != nil {
		return configured{}, err
	}
	p.looking.Store(observer)
	p.inForce = next
	return next.configured(), nil
}

// fits refuses a configuration that differs in what is bound to this process, also where only the content of a file does.
func (p *triggerProcess) fits(next *triggerService) error {
	return p.checkBound(p.T, next.T, next.T.Trust.in(next.file), map[string]bool{"internal.tokenFile": p.internal.token == next.internal.token})
}

// keep takes the schedules and queues of the configuration before that have not changed: they go on without a pause. The secrets of webhooks
// are read again.
func (t *triggerService) keep(before *triggerService) {
	for i, s := range t.T.Sources {
		if s.Schedule == nil && s.Queue == nil {
			continue
		}
		same := func(old sourceConfig) bool { return reflect.DeepEqual(old, s) }
		if j := slices.IndexFunc(before.T.Sources, same); j >= 0 {
			t.sources[i] = before.sources[j]
		}
	}
}

func (t *triggerService) listenWebhooks() (net.Listener, error) {
	l, err := net.Listen("tcp", t.T.Listen)
	if err != nil || t.T.TLSCertificate == "" {
		return l, err
	}
	cert, err := tls.LoadX509KeyPair(t.file(t.T.TLSCertificate), t.file(t.T.TLSKey))
	if err != nil {
		l.Close()
		return nil, err
	}
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}), nil
}
