// Package node runs the node: mediator reputation.
//
//	node.go         the process: its parts, how it begins, reloads and ends
//	owners.go       the owners whose receipts it takes, and how it follows their trust bundles
//	verification.go the verification of agents over MCP
//	disputes.go     signals and disputes
//	metrics.go      requests that it answered, and owners whose bundles are not taken over
//	needs.go        what the process uses, and what it observes of its deployment
package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/signer"
)

// process is the running node. A reload replaces its owners, the hosts that it believes and the tasks that agents are verified with;
// everything else stays.
type process struct {
	*daemon.Process
	config     *config.Reputation // as read at the start
	score      *signer.Issuer[autonomy.Claims]
	reputation *signer.Issuer[accrual.Claims]
	store      *store.Store
	service    *reputation.Service
	owners     *owners
	metrics    *requests
	disputes   *reputation.Disputes // nil where the node takes none
	// verifier is nil where the node offers no verification, and verified signs for it.
	verifier *verifier
	verified *signer.Issuer[verification.Result]
	// Both answer not_ready until the node is ready.
	internal, public daemon.LateHandler
}

// grace is how long a process that ends waits for open requests.
const grace = 10 * time.Second

// Run runs the node until ctx ends.
func Run(ctx context.Context, path string, stderr io.Writer) error {
	c, err := config.LoadReputation(path)
	if err != nil {
		return err
	}
	places := []daemon.Place{daemon.PlaceOf("internal", c.Internal)}
	if c.Public != nil {
		places = append(places, daemon.Place{Key: "public.listen", Address: c.Public.Listen})
	}
	s := daemon.Start{File: path, Name: "reputation", Log: c.Log, Custody: c.Custody, Places: places}
	return daemon.Run(ctx, s, stderr, func(ctx context.Context, p *daemon.Process) error {
		return (&process{Process: p, config: c}).run(ctx)
	})
}

// run makes the parts of the process and serves until ctx ends.
func (p *process) run(ctx context.Context) error {
	c := p.config
	if err := p.openAppraiser(); err != nil {
		return err
	}
	o := Observer(c, p.Roles)
	p.Observer.Store(o)
	if err := p.CheckFiles(c.Trust, "", nil); err != nil {
		return err
	}
	if err := p.openService(ctx); err != nil {
		return err
	}
	defer p.store.Close()
	var err error
	if c.Verification != nil {
		if p.verifier, err = openVerifier(ctx, c, p.verified, p.Metrics, p.Log); err != nil {
			return err
		}
		defer p.verifier.store.Close()
	}
	if err := p.Metrics.Register(p.owners); err != nil {
		return err
	}
	if p.metrics, err = newRequests(p.Metrics); err != nil {
		return err
	}
	needs, err := Resources(c, o)
	if err != nil {
		return err
	}
	if err := p.owners.take(c); err != nil && !await.Pending(err) {
		return err
	}
	if err := p.Confine(needs, c.Confine); err != nil {
		return err
	}
	if err := p.OpenKeys(ctx); err != nil {
		return err
	}
	internal, err := daemon.Listen(c.Internal, p.Log)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if c.Public != nil {
		if err := p.servePublic(ctx, group); err != nil {
			return errors.Join(fmt.Errorf("public in %s: %w", c.Path, err), internal.Close())
		}
	}
	mux := p.Mux(p.internal.Ready)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { p.internal.ServeHTTP(w, r.WithContext(wire.Context(r))) })
	group.Go(func() error {
		return daemon.Serve(ctx, internal, daemon.RequireToken(c.Internal, mux), daemon.Limits{}, grace, p.Log)
	})
	group.Go(func() error { p.Reloader.Watch(ctx); return nil })
	group.Go(func() error { return p.start(ctx, group) })
	return group.Wait()
}

// openAppraiser makes the signers of scores, reputations, results of verifications and ends of disputes. All of them use the appraiser's
// key.
func (p *process) openAppraiser() error {
	role := p.config.Keys.Appraiser
	key, err := p.AddRole(autonomy.Kind.Purpose, role.SigningKey)
	if err != nil {
		return err
	}
	o := signer.Options{Issuer: role.Issuer, Audience: role.Audience, Lifetime: role.Lifetime.Or(time.Minute), Now: time.Now}
	if p.score, err = signer.New(autonomy.Kind, key, o); err != nil {
		return err
	}
	if p.reputation, err = signer.New(accrual.Kind, key, o); err != nil {
		return err
	}
	if err := p.openDisputes(key, o); err != nil {
		return err
	}
	o.Lifetime = verification.Lifetime
	p.verified, err = signer.New(verification.Kind, key, o)
	return err
}

// openService opens the store and makes the service. It believes nobody yet.
func (p *process) openService(ctx context.Context) (err error) {
	c := p.config
	if c.StoreDSN == "" {
		p.store, err = store.Open(ctx, filepath.Join(c.State, storeFile))
	} else {
		p.store, err = store.OpenPostgres(ctx, c.StoreDSN)
	}
	if err != nil {
		return fmt.Errorf("the store of %s: %w", c.Path, err)
	}
	if p.disputes != nil {
		p.disputes.Now = p.store.Clock()
	}
	p.service, err = reputation.New(reputation.Options{
		Store: p.store, Score: p.score, Reputation: p.reputation, Verified: p.verifiedOf, Disputes: p.disputes, Retention: c.Retention.Or(reputation.DefaultRetention, forever), Limits: c.Limits.Of(),
		Now: time.Now, Log: p.Log, Metrics: p.Metrics,
	})
	if err != nil {
		return errors.Join(err, p.store.Close())
	}
	p.owners = &owners{audience: c.Audience, skew: time.Duration(c.Trust.ClockSkew), believe: p.service.Believe, log: p.Log}
	return nil
}

const (
	storeFile = "reputation.db"
	// forever is longer than anything is kept.
	forever = 100 * 365 * 24 * time.Hour
	// trusted is how many requests a second the node takes from one address at its internal endpoint, where the endpoint's token has been
	// demanded: a sidecar relays the requests of all its agents.
	trusted = 10_000
)

// servePublic serves the address that everybody can reach. What operators ask of the process is not served there.
func (p *process) servePublic(ctx context.Context, group *errgroup.Group) error {
	c := p.config.Public
	certificate, err := daemon.OpenServerCertificate(c.TLSCertificate, c.TLSKey, p.Log)
	if err != nil {
		return err
	}
	l, err := certificate.Listen(c.Listen)
	if err != nil {
		return err
	}
	group.Go(func() error { certificate.Watch(ctx); return nil })
	group.Go(func() error { return daemon.Serve(ctx, l, &p.public, daemon.PublicLimits, grace, p.Log) })
	return nil
}

// start waits for the trust bundle and for the files of the owners. Then the node takes receipts.
func (p *process) start(ctx context.Context, group *errgroup.Group) error {
	c := p.config
	if err := p.WaitForRoots(ctx, c.Trust); err != nil {
		return err
	}
	certified, err := p.WaitForCertificates(ctx, c.Trust)
	if err != nil {
		return err
	}
	group.Go(func() error { certified.Watch(ctx); return nil })
	if _, err := daemon.WaitFor(ctx, p.Process, "the files of the owners", func() (struct{}, error) { return struct{}{}, p.owners.take(c) }); err != nil {
		return err
	}
	p.Reloader.Start(status(c), p.reload)
	group.Go(func() error { return p.service.Run(ctx) })
	internal := api.Options{Now: time.Now, Log: p.Log, Operators: true, Rate: trusted}
	public := api.Options{Now: time.Now, Log: p.Log, Rate: c.Limits.PublicPerSecond}
	if p.verifier != nil {
		internal.Verifications = p.verifier.service
		if internal.MCP, err = p.verifier.handler(named(p.service)); err != nil {
			return err
		}
		if public.MCP, err = p.verifier.handler(namedOrFrom(p.service)); err != nil {
			return err
		}
		group.Go(func() error { p.verifier.prune(ctx); return nil })
	}
	p.internal.Set(p.metrics.count(api.Handler(p.service, internal)))
	p.public.Set(p.metrics.count(api.Handler(p.service, public)))
	p.Log.Info("ready", zap.Int("owners", len(c.Owners)))
	p.owners.watch(ctx)
	return nil
}

func status(c *config.Reputation) daemon.ConfigStatus {
	return daemon.ConfigStatus{Configuration: evidence.HashBytes(c.Raw)}
}

// reload reads the files again and puts the owners that they name now in force. If it fails, nothing has changed.
func (p *process) reload(ctx context.Context) (daemon.ConfigStatus, error) {
	next, err := config.LoadReputation(p.config.Path)
	if err != nil {
		return daemon.ConfigStatus{}, err
	}
	if err := p.CheckBound(*p.config, *next, next.Trust); err != nil {
		return daemon.ConfigStatus{}, err
	}
	o := Observer(next, p.Roles)
	needs, err := Resources(next, o)
	if err != nil {
		return daemon.ConfigStatus{}, err
	}
	if err := p.CheckConfined(needs, next.Confine); err != nil {
		return daemon.ConfigStatus{}, err
	}
	if err := o.CheckStart(ctx); err != nil {
		return daemon.ConfigStatus{}, err
	}
	if err := p.owners.take(next); err != nil {
		return daemon.ConfigStatus{}, err
	}
	if p.verifier != nil {
		p.verifier.service.SetTasks(next.Verification.TaskList)
	}
	p.Observer.Store(o)
	return status(next), nil
}
