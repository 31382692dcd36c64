// Package control runs the control plane: mediator control.
package control

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
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/signer"
)

// process is the running control plane. A reload replaces its ruling; everything else stays.
type process struct {
	*daemon.Process
	config *config.Control // as read at the start

	decision *signer.Issuer[evidence.PolicyDecision]
	grant    *signer.Issuer[evidence.ActionGrant]
	engines  decide.Engines
	inForce  *ruling // nil until start; only a reload changes it
}

// ruling holds everything that decisions depend on under one configuration.
type ruling struct {
	config   *config.Control
	trust    *daemon.TrustFollower
	engine   *decide.Engine
	observer *daemon.Observer
}

// Run runs the control plane until ctx ends.
func Run(ctx context.Context, path string, stderr io.Writer) error {
	c, err := config.LoadControl(path)
	if err != nil {
		return err
	}
	s := daemon.Start{File: path, Name: "control", Log: c.Log, Custody: c.Custody, Places: []daemon.Place{daemon.PlaceOf("internal", c.Internal)}}
	return daemon.Run(ctx, s, stderr, func(ctx context.Context, p *daemon.Process) error {
		return (&process{Process: p, config: c}).run(ctx)
	})
}

// run makes the parts of the process and serves until ctx ends.
func (p *process) run(ctx context.Context) (err error) {
	c := p.config
	if p.decision, err = daemon.NewIssuer(p.Process, evidence.PolicyDecisionKind, c.Keys.Decision, c.Audience); err != nil {
		return err
	}
	if p.grant, err = daemon.NewIssuer(p.Process, evidence.ActionGrantKind, c.Keys.Grant, c.Audience); err != nil {
		return err
	}
	o := Observer(c, p.Roles)
	p.Observer.Store(o)
	if err := p.CheckFiles(c.Trust, c.Manifest, p.checkManifest); err != nil {
		return err
	}
	if err := p.Confine(Resources(c, o), c.Confine); err != nil {
		return err
	}
	if err := p.OpenKeys(ctx); err != nil {
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
		return daemon.Serve(ctx, l, daemon.RequireToken(c.Internal, mux), daemon.Limits{}, 10*time.Second, p.Log)
	})
	group.Go(func() error { p.Reloader.Watch(ctx); return nil })
	group.Go(func() error { return p.start(ctx, group, &service) })
	return group.Wait()
}

// start waits for the manifest and the trust bundle. Then it puts the first ruling in force, and the service answers.
func (p *process) start(ctx context.Context, group *errgroup.Group, service *daemon.LateHandler) error {
	c := p.config
	m, strict, err := p.WaitForManifest(ctx, c.Manifest)
	if err != nil {
		return err
	}
	if err := p.checkManifest(m, strict); err != nil {
		return fmt.Errorf("%s: %w", c.Manifest, err)
	}
	if err := p.WaitForRoots(ctx, c.Trust); err != nil {
		return err
	}
	certified, err := p.WaitForCertificates(ctx, c.Trust)
	if err != nil {
		return err
	}
	trust, err := p.WaitForTrust(ctx, c.Trust, strict)
	if err != nil {
		return err
	}
	first, err := p.build(c, trust, p.Observer.Load())
	if err != nil {
		return err
	}
	if err := p.activate(first); err != nil {
		return err
	}
	p.Reloader.Start(first.status(), p.reload)
	service.Set(decide.NewServer(&p.engines))
	p.Log.Info("ready", zap.String("policyHash", c.Rules.Hash()))
	certified.Watch(ctx)
	return nil
}

// checkManifest refuses a manifest that pins other rules, or does not allow what this process signs.
func (p *process) checkManifest(_ *policy.Manifest, strict *policy.Strict) error {
	return cmp.Or(strict.Pins(p.config.Rules.Hash()), p.CheckAllowed(strict, p.config.Audience))
}

// reload reads the files again and puts the result in force as the next ruling. If it fails, nothing has changed.
func (p *process) reload(ctx context.Context) (daemon.ConfigStatus, error) {
	next, err := p.read(ctx)
	if err != nil {
		return daemon.ConfigStatus{}, err
	}
	return next.status(), p.activate(next)
}

// read reads the configuration and every file that it names, once. It refuses all of them unless this process could put
// all of them in force now.
func (p *process) read(ctx context.Context) (*ruling, error) {
	c, err := config.LoadControl(p.config.Path)
	if err != nil {
		return nil, err
	}
	if err := p.CheckBound(*p.config, *c, c.Trust); err != nil {
		return nil, err
	}
	_, strict, err := config.ReadAuditedManifest(c.Manifest)
	if err != nil {
		return nil, err
	}
	if err := p.CheckAllowed(strict, p.config.Audience); err != nil {
		return nil, err
	}
	trust, err := p.ReadTrust(c.Trust, strict)
	if err != nil {
		return nil, err
	}
	if err := trust.CheckSuccessor(p.inForce.trust); err != nil {
		return nil, err
	}
	o := Observer(c, p.Roles)
	if err := p.CheckConfined(Resources(c, o), c.Confine); err != nil {
		return nil, err
	}
	if err := o.CheckStart(ctx); err != nil {
		return nil, err
	}
	return p.build(c, trust, o)
}

// build makes a ruling. It refuses rules that the manifest does not pin.
func (p *process) build(c *config.Control, trust *daemon.TrustFollower, o *daemon.Observer) (*ruling, error) {
	engine, err := decide.NewEngine(c.Rules, trust.Verifier, trust.Strict, p.decision, p.grant, decide.EngineOptions{Now: time.Now, Log: p.Log})
	return &ruling{c, trust, engine, o}, err
}

func (r *ruling) status() daemon.ConfigStatus {
	return daemon.ConfigStatus{Configuration: evidence.HashBytes(r.config.Raw), Manifest: r.trust.Strict.ManifestHash, Policy: r.config.Rules.Hash()}
}

// overlap is how long the control plane still decides by the previous ruling after a reload. Operators reload the
// sidecars in this time. Afterwards a sidecar with the previous manifest cannot post.
const overlap = 5 * time.Minute

// activate puts a ruling in force. If too many earlier rulings are still honoured, activate fails and changes nothing.
func (p *process) activate(next *ruling) error {
	p.Trust.Add(next.trust)
	if err := p.engines.Set(next.engine); err != nil {
		p.Trust.Drop(next.trust)
		return err
	}
	p.Observer.Store(next.observer)
	if old := p.inForce; old != nil {
		time.AfterFunc(overlap, func() {
			if p.engines.Retire(old.engine) {
				p.Log.Info("the manifest before is honoured no more", zap.String("manifest", old.trust.Strict.ManifestHash))
			}
			p.Trust.Drop(old.trust)
		})
	}
	p.inForce = next
	return nil
}

// Resources lists what the control plane uses while it serves.
func Resources(c *config.Control, o *daemon.Observer) daemon.Resources {
	return daemon.Resources{Named: o.Paths, Socket: c.Internal.Unix, Bind: []string{c.Internal.TCP}, Connect: c.Custody.Addresses()}
}

// Observer returns the observer for what the control plane can see of its deployment.
func Observer(c *config.Control, roles []daemon.Role) *daemon.Observer {
	secret := append(daemon.CustodySecrets(c.Custody, roles), c.Internal.TokenFile)
	public := append(c.Custody.PublicFiles(), c.Path, c.Manifest, c.Policy, c.Trust.Registry, c.Trust.Auditor, c.Trust.Bundle)
	return &daemon.Observer{
		Agent: c.Agent, Roles: roles, Paths: slices.Concat(daemon.SecretPaths(secret...), daemon.PublicPaths(public...), daemon.SocketPath(c.Internal)),
	}
}
