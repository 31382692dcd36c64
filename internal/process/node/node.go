// Package node runs the node: mediator reputation.
package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/signer"
)

// process is the running node. A reload replaces its owners and the believed hosts.
type process struct {
	*daemon.Process
	strangers  *zap.Logger        // for lines that strangers cause
	version    string             // of the program
	config     *config.Reputation // as read at the start
	score      *signer.Issuer[autonomy.Claims]
	reputation *signer.Issuer[accrual.Claims]
	store      *store.Store
	service    *reputation.Service
	owners     *owners
	metrics    *requests
	shown      shown                // the pins
	disputes   *reputation.Disputes // nil if the node takes none
	// verifier is nil if the node offers no verification; verified signs for it.
	verifier *verifier
	verified *signer.Issuer[verification.Result]
	// Both answer not_ready until the node is ready.
	internal, public endpoint.LateHandler
}

// Run runs the node of a program of this version until ctx ends.
func Run(ctx context.Context, version, path string, stderr io.Writer) error {
	return daemon.Run(ctx, "reputation", path, stderr, &process{version: version})
}

// Plan returns what the node takes from a configuration.
func Plan(c *config.Reputation) (daemon.Plan, error) {
	p := daemon.PlanOf(c, c.File, c.Process, c.Internal)
	p.History = true
	if p.Secret = append(p.Secret, StorePath(c)); c.Verification != nil {
		p.Secret = append(p.Secret, filepath.Join(c.State, verificationFile))
	}
	return p, p.UseDatabase(c.Store.Postgres.ConnString())
}

func (*process) Plan(c *config.Reputation) (daemon.Plan, error) { return Plan(c) }

// Roles makes the signers. All use the appraiser's key.
func (p *process) Roles(process *daemon.Process, c *config.Reputation) error {
	p.Process, p.config, p.strangers = process, c, flood.Logger(process.Log)
	role := p.config.Keys.Appraiser
	key, err := p.AddRole(autonomy.Kind.Purpose, role.SigningKey)
	if err != nil {
		return err
	}
	o := signer.Options{Issuer: role.Issuer, Audience: role.Audience, Lifetime: role.Lifetime.Or(time.Minute),
		Now: time.Now}
	if p.score, err = signer.New(autonomy.Kind, key, o); err != nil {
		return err
	}
	if p.reputation, err = signer.New(accrual.Kind, key, o); err != nil {
		return err
	}
	if c := p.config.Disputes; c != nil {
		p.disputes = &reputation.Disputes{
			Rules: c.Rules(), Registered: p.registered, Key: key, Court: c.Court(), Operator: c.OperatorRoot,
			Audience: p.config.Audience,
		}
		// They are about the past, and do not change.
		o.Lifetime = dispute.ResolutionKind.MaxLifetime
		if p.disputes.Resolution, err = signer.New(dispute.ResolutionKind, key, o); err != nil {
			return err
		}
	}
	o.Lifetime = verification.Lifetime
	p.verified, err = signer.New(verification.Kind, key, o)
	return err
}

// trusted is the rate per second of one address at the internal endpoint: a sidecar relays for all its agents.
const trusted = 10_000

// Open opens the stores, and reads the owners' files if they exist.
func (p *process) Open(ctx context.Context) (err error) {
	c := p.config
	if p.store, err = store.Open(ctx, StorePath(c), c.Store.Postgres.ConnString()); err != nil {
		return fmt.Errorf("the store of %s: %w", c.Path, err)
	}
	if p.disputes != nil {
		p.disputes.Now = p.store.Clock()
	}
	p.service, err = reputation.New(reputation.Options{
		Store: p.store, Score: p.score, Reputation: p.reputation, Verified: p.verifiedOf, Disputes: p.disputes,
		Retention: time.Duration(c.Retention), Limits: c.Limits.Of(),
		Now: time.Now, Log: p.Log, Metrics: p.Metrics,
	})
	if err != nil {
		return err
	}
	if err := p.service.Check(ctx); err != nil {
		return fmt.Errorf("the store of %s: %w", c.Path, err)
	}
	if c.Verification != nil {
		if p.verifier, err = openVerifier(ctx, c, p.verified, p.Log); err != nil {
			return err
		}
	}
	p.owners = &owners{audience: c.Audience, skew: time.Duration(c.Trust.ClockSkew), believe: p.service.Believe,
		log: p.Log}
	if err := p.Metrics.Register(p.owners); err != nil {
		return err
	}
	p.metrics = newRequests(p.Metrics)
	if err := p.owners.take(c); err != nil && !await.Pending(err) {
		return err
	}
	return nil
}

// StorePath is where a node keeps its store, unless the store is in PostgreSQL.
func StorePath(c *config.Reputation) string { return filepath.Join(c.State, "reputation.db") }

func (p *process) Close() {
	if p.verifier != nil {
		p.verifier.store.Close()
	}
	if p.store != nil {
		p.store.Close()
	}
}

// Begin also opens the public address, without the process's own endpoints.
func (p *process) Begin(ctx context.Context, group *errgroup.Group) (http.Handler, error) {
	if c := p.config.Public; c != nil {
		l, err := endpoint.ListenTLS(ctx, group, c.Listen, c.TLSCertificate, c.TLSKey, p.Log)
		if err != nil {
			return nil, fmt.Errorf("public in %s: %w", p.config.Path, err)
		}
		group.Go(func() error { return endpoint.Serve(ctx, l, &p.public, endpoint.PublicLimits, daemon.Grace, p.Log) })
	}
	mux := p.Mux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.internal.ServeHTTP(w, r.WithContext(wire.Context(r)))
	})
	return mux, nil
}

// Serve waits for the owners' files. Then the node takes receipts.
func (p *process) Serve(ctx context.Context, group *errgroup.Group, _ *daemon.Configured[config.Reputation]) error {
	c := p.config
	var bundles []string
	for _, o := range c.Owners {
		bundles = append(bundles, o.Bundle)
	}
	err := p.WaitFor(ctx, "the files of the owners", bundles, func() error { return p.owners.take(c) })
	if err != nil {
		return err
	}
	group.Go(func() error { return p.service.Run(ctx) })
	group.Go(func() error { p.owners.watch(ctx); return nil })
	internal := api.Options{Now: time.Now, Log: p.Log, Operators: true, Rate: trusted, Pins: p.pins}
	public := api.Options{Now: time.Now, Log: p.Log, Rate: c.Limits.PublicPerSecond, Pins: p.pins}
	if p.verifier != nil {
		if internal.MCP, err = p.verifier.handler(p.version, named(p.service)); err != nil {
			return err
		}
		if public.MCP, err = p.verifier.handler(p.version, namedOrFrom(p.service)); err != nil {
			return err
		}
		group.Go(func() error { p.verifier.prune(ctx); return nil })
	}
	p.internal.Set(p.metrics.count(api.Handler(p.service, internal)))
	p.public.Set(p.metrics.count(api.Handler(p.service, public)))
	return nil
}

func (p *process) Next(_ context.Context, next *daemon.Configured[config.Reputation]) (func() error, error) {
	return func() error { return p.owners.take(next.Config) }, nil
}
