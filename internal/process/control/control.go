// Package control runs the control plane: mediator control.
package control

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/signer"
)

// plane is the running control plane, a [daemon.Service]. A reload replaces its ruling; everything else stays.
type plane struct {
	*daemon.Process
	config *config.Control // as read at the start

	decision *signer.Issuer[evidence.PolicyDecision]
	grant    *signer.Issuer[evidence.ActionGrant]
	engines  decide.Engines
	service  endpoint.LateHandler // not_ready before the first ruling
	ruling   *ruling              // nil until Serve; only a reload changes it
	// directory is ruling's trust, for the directory of Web Bot Auth.
	directory atomic.Pointer[daemon.TrustFollower]
}

// ruling holds everything that decisions depend on under one configuration.
type ruling struct {
	trust  *daemon.TrustFollower
	engine *decide.Engine
}

// Run runs the control plane until ctx ends.
func Run(ctx context.Context, path string, stderr io.Writer) error {
	return daemon.Run(ctx, "control", path, stderr, new(plane))
}

// Plan returns what the control plane takes from a configuration.
func Plan(c *config.Control) (daemon.Plan, error) {
	p := daemon.PlanOf(c, c.File, c.Process, c.Internal)
	p.Manifest, p.Policy = c.Manifest, c.Rules.Hash()
	return p, nil
}

// Plan implements [daemon.Service]. The manifest has to pin the rules.
func (p *plane) Plan(c *config.Control) (daemon.Plan, error) {
	plan, err := Plan(c)
	plan.CheckManifest = func(strict *policy.Strict) error {
		return cmp.Or(strict.Pins(c.Rules.Hash()), p.CheckAllowed(strict, p.config.Audience))
	}
	return plan, err
}

func (p *plane) Roles(process *daemon.Process, c *config.Control) error {
	p.Process, p.config = process, c
	return cmp.Or(
		daemon.AddIssuer(process, &p.decision, evidence.PolicyDecisionKind(), c.Keys.Decision, c.Audience),
		daemon.AddIssuer(process, &p.grant, evidence.ActionGrantKind(), c.Keys.Grant, c.Audience))
}

func (p *plane) Begin(context.Context, *errgroup.Group) (http.Handler, error) {
	mux := p.Mux()
	mux.Handle("/", &p.service)
	return mux, nil
}

func (p *plane) Serve(ctx context.Context, group *errgroup.Group, first *daemon.Configured[config.Control]) error {
	apply, err := p.Next(ctx, first)
	if err != nil {
		return err
	}
	if err := apply(); err != nil {
		return err
	}
	p.service.Set(decide.NewServer(&p.engines))
	return p.publish(ctx, group)
}

func (p *plane) Next(_ context.Context, next *daemon.Configured[config.Control]) (func() error, error) {
	o := decide.EngineOptions{Now: time.Now, Log: p.Log}
	engine, err := decide.NewEngine(next.Config.Rules, next.Trust.Verifier, next.Strict, p.decision, p.grant, o)
	if err != nil {
		return nil, err
	}
	return func() error { return p.activate(&ruling{next.Trust, engine}) }, nil
}

// overlap is the time after a reload in which the previous ruling still decides. Operators reload the sidecars in it.
const overlap = 5 * time.Minute

// activate applies a ruling. If too many earlier rulings are still honoured, it fails and changes nothing.
func (p *plane) activate(next *ruling) error {
	p.Trust.Add(next.trust)
	if err := p.engines.Set(next.engine); err != nil {
		p.Trust.Drop(next.trust)
		return err
	}
	switch old := p.ruling; {
	case old == nil:
	case old.trust.Strict.ManifestHash == next.trust.Strict.ManifestHash: // replaced: callers may reload at any rate
		p.Trust.Drop(old.trust)
	default:
		time.AfterFunc(overlap, func() {
			if p.engines.Retire(old.engine) {
				p.Log.Info("the previous manifest is honoured no more",
					zap.String("manifest", old.trust.Strict.ManifestHash))
			}
			p.Trust.Drop(old.trust)
		})
	}
	p.ruling = next
	p.directory.Store(next.trust)
	return nil
}
