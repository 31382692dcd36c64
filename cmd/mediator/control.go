package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

func controlCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "control --config FILE", Short: "Run the control plane: policy decisions and action grants", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return control(c.Context(), path, c.ErrOrStderr()) },
	}
	configFlag(c, &path, "control.yaml")
	return c
}

// controlPlane is the validated form of controlConfig.
type controlPlane struct {
	loaded[controlConfig]
	internal endpoint
	rules    *policy.Rules
}

func loadControl(path string) (*controlPlane, error) {
	l, err := load[controlConfig](path)
	if err != nil {
		return nil, err
	}
	c, f := l.T, findings{}
	f.need("audience", c.Audience, "manifest", c.Manifest, "policy", c.Policy,
		"trust.registry", c.Trust.Registry, "trust.auditor", c.Trust.Auditor, "trust.bundle", c.Trust.Bundle)
	c.Custody.check(&f)
	c.Confine.check(&f)
	c.Trust.check(&f)
	c.Agent.check(&f, "internal", c.Internal.UIDs)
	c.Log.check(&f)
	checkKeys(&f, namedKey{"keys.decision", c.Keys.Decision}, namedKey{"keys.grant", c.Keys.Grant})
	p := &controlPlane{loaded: l, internal: c.Internal.endpoint("internal", &f, l.file)}
	if c.Policy != "" {
		if p.rules, err = readRules(l.file(c.Policy)); err != nil {
			f.add("policy", "%v", err)
		}
	}
	return p, f.err(path)
}

func readRules(path string) (*policy.Rules, error) {
	raw, err := readFile(path)
	if err != nil {
		return nil, err
	}
	rules, err := policy.ParseRules(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rules, nil
}

// controlProcess is the control plane as it runs. What can change meanwhile is the engine in force.
type controlProcess struct {
	*controlPlane // as it was read at the start: what is bound to the process stays so
	*process

	decision *signer.Issuer[evidence.PolicyDecision]
	grant    *signer.Issuer[evidence.ActionGrant]
	trusts   trustWatch
	engines  policy.Engines
	inForce  *ruling // nil before the first; changed by the reloader alone
}

// ruling is everything that posts are decided by under one configuration.
type ruling struct {
	*controlPlane
	trust    *trustStore
	engine   *policy.Engine
	observer *observer
}

// control runs the control plane until ctx ends.
func control(ctx context.Context, path string, stderr io.Writer) error {
	plane, err := loadControl(path)
	if err != nil {
		return err
	}
	log, err := newLogger(plane.T.Log, "control", stderr)
	if err != nil {
		return err
	}
	common, err := openProcess(log, plane.T.Custody, plane.file)
	if err != nil {
		return err
	}
	defer common.keys.Close()
	p := &controlProcess{controlPlane: plane, process: common}
	return p.run(ctx)
}

// run makes the parts and serves until ctx ends.
func (p *controlProcess) run(ctx context.Context) (err error) {
	c := p.T
	if p.decision, err = newIssuer(ctx, p.process, evidence.PolicyDecisionKind, c.Keys.Decision, c.Audience); err != nil {
		return err
	}
	if p.grant, err = newIssuer(ctx, p.process, evidence.ActionGrantKind, c.Keys.Grant, c.Audience); err != nil {
		return err
	}
	observer := p.observer(p.roles)
	if err := observer.start(ctx); err != nil {
		return err
	}
	p.looking.Store(observer)
	if err := p.confine(p.reach(observer), c.Confine, p.file); err != nil {
		return err
	}
	l, err := p.internal.listen(p.log)
	if err != nil {
		return err
	}
	var service lateHandler
	mux := p.mux(service.ready)
	layersHandler(mux, p.confined)
	mux.Handle("/", &service)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveHTTP(ctx, l, p.internal.guard(mux), bounds{}, 10*time.Second, p.log) })
	group.Go(func() error { p.reload.watch(ctx); return nil })
	group.Go(func() error { return p.begin(ctx, group, &service) })
	return group.Wait()
}

// begin waits for the manifest and the trust, puts the first ruling in force and decides by it.
func (p *controlProcess) begin(ctx context.Context, group *errgroup.Group, service *lateHandler) error {
	c := p.T
	_, strict, err := waitForManifest(ctx, p.log, p.file(c.Manifest))
	if err != nil {
		return err
	}
	if err := cmp.Or(strict.Pins(p.rules), admitted(strict, p.roles, c.Audience)); err != nil {
		return fmt.Errorf("%s: %w", p.file(c.Manifest), err)
	}
	if err := p.openRoots(ctx, c.Trust.in(p.file)); err != nil {
		return err
	}
	trust, err := p.openTrust(ctx, c.Trust.in(p.file), strict)
	if err != nil {
		return err
	}
	certified, err := p.openCertificates(ctx, c.Trust.in(p.file))
	if err != nil {
		return err
	}
	group.Go(func() error { certified.watch(ctx); return nil })
	first, err := p.build(p.controlPlane, trust, p.looking.Load())
	if err != nil {
		return err
	}
	if err := p.put(first); err != nil {
		return err
	}
	p.reload.begin(first.configured(), p.take)
	service.set(policy.NewServer(&p.engines))
	p.log.Info("ready", zap.String("policyHash", p.rules.Hash()))
	p.trusts.watch(ctx)
	return nil
}

// take makes the control plane's next ruling of what the files say now and puts it in force, or fails and has changed nothing.
func (p *controlProcess) take(ctx context.Context) (configured, error) {
	plane, err := loadControl(p.path)
	if err != nil {
		return configured{}, err
	}
	if err := p.fits(plane); err != nil {
		return configured{}, err
	}
	_, strict, err := readManifest(plane.file(plane.T.Manifest))
	if err != nil {
		return configured{}, err
	}
	if err := admitted(strict, p.roles, p.T.Audience); err != nil {
		return configured{}, err
	}
	trust, err := p.readTrust(plane.T.Trust.in(plane.file), strict)
	if err != nil {
		return configured{}, err
	}
	if err := trust.verifier.Trust().Succeeds(p.inForce.trust.verifier.Trust()); err != nil {
		return configured{}, err
	}
	observer := plane.observer(p.roles)
	if err := p.checkWithin(plane.reach(observer), plane.T.Confine, plane.file); err != nil {
		return configured{}, err
	}
	if err := observer.start(ctx); err != nil {
		return configured{}, err
	}
	next, err := p.build(plane, trust, observer)
	if err != nil {
		return configured{}, err
	}
	return next.configured(), p.put(next)
}

// fits refuses a configuration that differs in what is bound to this process, also where only the content of a file does.
func (p *controlProcess) fits(plane *controlPlane) error {
	return p.checkBound(p.T, plane.T, plane.T.Trust.in(plane.file), map[string]bool{"internal.tokenFile": p.internal.token == plane.internal.token})
}

// build makes a ruling. Rules that the manifest does not pin are refused.
func (p *controlProcess) build(plane *controlPlane, trust *trustStore, o *observer) (*ruling, error) {
	engine, err := policy.NewEngine(plane.rules, trust.verifier, trust.strict, p.decision, p.grant, policy.EngineOptions{Now: time.Now, Log: p.log})
	return &ruling{plane, trust, engine, o}, err
}

func (r *ruling) configured() configured {
	return configured{Configuration: evidence.HashBytes(r.raw), Manifest: r.trust.strict.ManifestHash, Policy: r.rules.Hash()}
}

// overlap is for how long posts are still decided by the ruling before: the time to reload each sidecar. A sidecar that has the manifest
// before after that posts nothing.
const overlap = 5 * time.Minute

// put puts a ruling in force. It fails, and has changed nothing, where too many before it are still honoured.
func (p *controlProcess) put(next *ruling) error {
	p.trusts.add(next.trust)
	if err := p.engines.Set(next.engine); err != nil {
		p.trusts.drop(next.trust)
		return err
	}
	p.looking.Store(next.observer)
	if old := p.inForce; old != nil {
		time.AfterFunc(overlap, func() {
			if p.engines.Retire(old.engine) {
				p.log.Info("the manifest before is honoured no more", zap.String("manifest", old.trust.strict.ManifestHash))
			}
			p.trusts.drop(old.trust)
		})
	}
	p.inForce = next
	return nil
}

// lateHandler answers "not ready" until its handler is there: a process publishes its keys before it can be certified.
type lateHandler struct{ h atomic.Pointer[http.Handler] }

func (l *lateHandler) set(h http.Handler) { l.h.Store(&h) }
func (l *lateHandler) ready() bool        { return l.h.Load() != nil }

func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := l.h.Load()
	if h == nil {
		problem.Write(w, refusal.New("not_ready", "the service is not ready: it waits for its manifest or its trust bundle"))
		return
	}
	(*h).ServeHTTP(w, r)
}
