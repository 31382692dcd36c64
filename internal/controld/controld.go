// Package controld is the control plane as a process: mediator control.
package controld

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/daemon"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// process is the control plane as it runs. What can change meanwhile is the ruling in force.
type process struct {
	*daemon.Process
	config *config.Control // as it was read at the start: what is bound to the process stays so

	decision *signer.Issuer[evidence.PolicyDecision]
	grant    *signer.Issuer[evidence.ActionGrant]
	trusts   daemon.TrustWatch
	engines  policy.Engines
	inForce  *ruling // nil before the first; changed by the reloader alone
}

// ruling is everything that posts are decided by under one configuration.
type ruling struct {
	config   *config.Control
	trust    *daemon.BundleTrust
	engine   *policy.Engine
	observer *daemon.Observer
}

// Run runs the control plane until ctx ends.
func Run(ctx context.Context, path string, stderr io.Writer) error {
	c, err := config.LoadControl(path)
	if err != nil {
		return err
	}
	log, err := daemon.NewLogger(c.Log, "control", stderr)
	if err != nil {
		return err
	}
	common, err := daemon.New(log, c.Custody)
	if err != nil {
		return err
	}
	defer common.Keys.Close()
	p := &process{Process: common, config: c}
	return p.run(ctx)
}

// run makes the parts and serves until ctx ends.
func (p *process) run(ctx context.Context) (err error) {
	c := p.config
	if p.decision, err = daemon.NewIssuer(ctx, p.Process, evidence.PolicyDecisionKind, c.Keys.Decision, c.Audience); err != nil {
		return err
	}
	if p.grant, err = daemon.NewIssuer(ctx, p.Process, evidence.ActionGrantKind, c.Keys.Grant, c.Audience); err != nil {
		return err
	}
	o := Observer(c, p.Roles)
	if err := o.CheckStart(ctx); err != nil {
		return err
	}
	p.Observer.Store(o)
	if err := p.Confine(Needs(c, o), c.Confine); err != nil {
		return err
	}
	l, err := daemon.Listen(c.Internal, p.Log)
	if err != nil {
		return err
	}
	var service daemon.LateHandler
	mux := p.Mux(service.Ready)
	mux.Handle("/", &service)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return daemon.Serve(ctx, l, daemon.Guard(c.Internal, mux), daemon.Bounds{}, 10*time.Second, p.Log)
	})
	group.Go(func() error { p.Reloader.Watch(ctx); return nil })
	group.Go(func() error { return p.begin(ctx, group, &service) })
	return group.Wait()
}

// begin waits for the manifest and the trust, puts the first ruling in force and decides by it.
func (p *process) begin(ctx context.Context, group *errgroup.Group, service *daemon.LateHandler) error {
	c := p.config
	_, strict, err := p.WaitForManifest(ctx, c.Manifest)
	if err != nil {
		return err
	}
	if err := cmp.Or(strict.Pins(c.Rules), p.CheckAdmitted(strict, c.Audience)); err != nil {
		return fmt.Errorf("%s: %w", c.Manifest, err)
	}
	if err := p.OpenRoots(ctx, c.Trust); err != nil {
		return err
	}
	trust, err := p.OpenTrust(ctx, c.Trust, strict)
	if err != nil {
		return err
	}
	certified, err := p.OpenCertificates(ctx, c.Trust)
	if err != nil {
		return err
	}
	group.Go(func() error { certified.Watch(ctx); return nil })
	first, err := p.build(c, trust, p.Observer.Load())
	if err != nil {
		return err
	}
	if err := p.put(first); err != nil {
		return err
	}
	p.Reloader.Begin(first.status(), p.take)
	service.Set(policy.NewServer(&p.engines))
	p.Log.Info("ready", zap.String("policyHash", c.Rules.Hash()))
	p.trusts.Watch(ctx)
	return nil
}

// take makes the control plane's next ruling of what the files say now and puts it in force, or fails and has changed nothing.
func (p *process) take(ctx context.Context) (daemon.ConfigStatus, error) {
	next, err := p.read(ctx)
	if err != nil {
		return daemon.ConfigStatus{}, err
	}
	return next.status(), p.put(next)
}

// read reads the configuration and all that it names, once, and refuses it unless all of it could be in force in this process now.
func (p *process) read(ctx context.Context) (*ruling, error) {
	c, err := config.LoadControl(p.config.Path)
	if err != nil {
		return nil, err
	}
	if err := p.CheckBound(*p.config, *c, c.Trust); err != nil {
		return nil, err
	}
	_, strict, err := config.ReadStrict(c.Manifest)
	if err != nil {
		return nil, err
	}
	if err := p.CheckAdmitted(strict, p.config.Audience); err != nil {
		return nil, err
	}
	trust, err := p.ReadTrust(c.Trust, strict)
	if err != nil {
		return nil, err
	}
	if err := trust.Succeeds(p.inForce.trust); err != nil {
		return nil, err
	}
	o := Observer(c, p.Roles)
	if err := p.CheckConfined(Needs(c, o), c.Confine); err != nil {
		return nil, err
	}
	if err := o.CheckStart(ctx); err != nil {
		return nil, err
	}
	return p.build(c, trust, o)
}

// build makes a ruling. Rules that the manifest does not pin are refused.
func (p *process) build(c *config.Control, trust *daemon.BundleTrust, o *daemon.Observer) (*ruling, error) {
	engine, err := policy.NewEngine(c.Rules, trust.Verifier, trust.Strict, p.decision, p.grant, policy.EngineOptions{Now: time.Now, Log: p.Log})
	return &ruling{c, trust, engine, o}, err
}

func (r *ruling) status() daemon.ConfigStatus {
	return daemon.ConfigStatus{Configuration: evidence.HashBytes(r.config.Raw), Manifest: r.trust.Strict.ManifestHash, Policy: r.config.Rules.Hash()}
}

// overlap is for how long posts are still decided by the ruling before: the time to reload each sidecar. A sidecar that has the manifest
// before after that posts nothing.
const overlap = 5 * time.Minute

// put puts a ruling in force. It fails, and has changed nothing, where too many before it are still honoured.
func (p *process) put(next *ruling) error {
	p.trusts.Add(next.trust)
	if err := p.engines.Set(next.engine); err != nil {
		p.trusts.Drop(next.trust)
		return err
	}
	p.Observer.Store(next.observer)
	if old := p.inForce; old != nil {
		time.AfterFunc(overlap, func() {
			if p.engines.Retire(old.engine) {
				p.Log.Info("the manifest before is honoured no more", zap.String("manifest", old.trust.Strict.ManifestHash))
			}
			p.trusts.Drop(old.trust)
		})
	}
	p.inForce = next
	return nil
}

// Needs is what the control plane uses once it serves.
func Needs(c *config.Control, o *daemon.Observer) daemon.Needs {
	return daemon.Needs{Named: o.Paths, Socket: c.Internal.Unix, Bind: []string{c.Internal.TCP}, Connect: c.Custody.Addresses()}
}

// Observer sees what the control plane can see of its deployment.
func Observer(c *config.Control, roles []daemon.Role) *daemon.Observer {
	secret := append(daemon.CustodySecrets(c.Custody, roles), c.Internal.TokenFile)
	public := append(c.Custody.Public(), c.Path, c.Manifest, c.Policy, c.Trust.Registry, c.Trust.Auditor, c.Trust.Bundle)
	return &daemon.Observer{
		Agent: c.Agent, Roles: roles, Paths: slices.Concat(daemon.SecretPaths(secret...), daemon.PublicPaths(public...), daemon.SocketPath(c.Internal)),
	}
}
