// Package registrar runs the registrar: mediator registrar.
//
//	process.go    the process: state, keys, rules
//	requests.go   what other processes ask of it
//	cluster.go    the cluster's pods, and the published CA
//	certificates.go  the certificates that pods, and the registrar itself, get
//	tokens.go     certificates for pods' tokens
//	refusals.go   log, metric and Events of refusals
//	trial.go      root keys and rules of a trial
//	shared.go     the state of replicas, in PostgreSQL
//	sealed.go     what of it a replica believes
package registrar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/keystore"
	"github.com/actionproof/mediator/internal/kube"
	"github.com/actionproof/mediator/internal/lru"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/registrar"
)

// process is the running registrar, a [daemon.Service]. A reload reads the rules again.
type process struct {
	*daemon.Process
	*registrar.Registrar
	config    *config.Registrar // as read at the start
	stderr    io.Writer
	store     registrar.Store
	registry  keyring.RootKey
	auditor   keyring.RootKey // the zero value unless the registrar renews deployment certificates
	caKey     custody.Key     // nil off Kubernetes
	shared    keystore.PublicKeys
	authority *registrar.Authority
	own       *identity.Identity // with which it answers the other processes
	cluster   *cluster           // nil off Kubernetes
	ruled     chan struct{}      // closed once there are rules

	askingMu sync.Mutex // guards the two fields below
	asking   *lru.Cache[string, *rate.Limiter]
	open     map[string]int // requests that are being answered, by caller

	log      *zap.Logger // of refusals: strangers can cause many
	refusals *prometheus.CounterVec
	made     *prometheus.CounterVec
	leads    prometheus.Gauge
}

const (
	caPurpose     = "tls_authority" // the CA's role in its custody
	readerPurpose = "public_keys"   // the role that reads the processes' public keys
)

// Run runs the registrar until ctx ends.
func Run(ctx context.Context, path string, stderr io.Writer) error {
	return daemon.Run(ctx, "registrar", path, stderr, &process{stderr: stderr, ruled: make(chan struct{})})
}

// Plan returns what the registrar takes from a configuration.
func Plan(c *config.Registrar) (daemon.Plan, error) {
	p := daemon.PlanOf(c, c.File, c.Process, c.Internal)
	p.Secret = append(p.Secret, c.Custody.SecretFiles(caPurpose, readerPurpose)...)
	for _, key := range []string{c.RegistryKey, c.AuditorKey} {
		if filepath.Ext(key) != ".yaml" {
			p.Secret = append(p.Secret, key)
			continue
		}
		root, err := config.Load[config.RootKey](key)
		if err != nil {
			return p, err
		}
		uses := fields.UsesOf(root)
		p.Secret = slices.Concat(p.Secret, uses.Secret, root.Custody.SecretFiles(root.Purpose))
		p.Public, p.Connect = append(append(p.Public, key), uses.Public...), append(p.Connect, uses.Connect...)
	}
	if k := c.Kubernetes; k != nil {
		o := apiServer(k)
		p.Secret, p.Public = append(p.Secret, o.TokenFile), append(p.Public, o.CAFile)
		p.Connect = append(p.Connect, o.Server)
	}
	return p, p.UseDatabase(c.Postgres.ConnString())
}

func (*process) Plan(c *config.Registrar) (daemon.Plan, error) { return Plan(c) }

// Roles implements [daemon.Service]. The registrar signs no evidence; its custody has the CA's key.
func (p *process) Roles(process *daemon.Process, c *config.Registrar) (err error) {
	p.config, p.Process, p.log, p.asking = c, process, flood.Logger(process.Log), lru.New[string, *rate.Limiter](maxAsking)
	p.open = make(map[string]int)
	if k := p.config.Kubernetes; k != nil {
		p.caKey, err = process.Keys.Key(caPurpose, k.Key)
	}
	p.shared = keystore.Reader(process.Keys, readerPurpose)
	with := promauto.With(process.Metrics)
	p.refusals = with.NewCounterVec(prometheus.CounterOpts{Name: "mediator_registrar_refusals_total",
		Help: "Requests that the registrar refused, by the reason."}, []string{"reason"})
	p.made = with.NewCounterVec(prometheus.CounterOpts{Name: "mediator_registrar_requests_total",
		Help: "Requests that the registrar granted: of keys, or of TLS certificates."}, []string{"of"})
	p.leads = with.NewGauge(prometheus.GaugeOpts{Name: "mediator_registrar_leads",
		Help: "1 if this replica issues TLS certificates and ends those of pods that are gone; else 0."})
	return err
}

// Open opens the state and the root keys.
func (p *process) Open(ctx context.Context) (err error) {
	c := p.config
	if c.Trial {
		// reads this program while it still can, and keeps its hash
		if _, err := deployed.EnvironmentHash(nil); err != nil {
			return err
		}
		if err := p.makeRoots(); err != nil {
			return err
		}
	} else {
		p.registry, err = keyring.OpenRootKey(ctx, c.RegistryKey, p.stderr, evidence.PurposeSignerCertificate)
		if err == nil && c.AuditorKey != "" {
			p.auditor, err = keyring.OpenRootKey(ctx, c.AuditorKey, p.stderr, evidence.PurposeDeploymentCertificate)
		}
		if err != nil {
			return err
		}
	}
	var folder *registrar.Folder
	if c.Postgres != nil {
		p.store, err = openShared(ctx, c.Postgres.ConnString(), c.State, p.registry)
	} else if folder, err = registrar.OpenFolder(c.State); err == nil {
		p.store = folder
	}
	if err != nil {
		return err
	}
	p.Registrar = registrar.New(registrar.Options{Key: p.registry, Store: p.store, Now: time.Now,
		Lifetime: c.Lifetime.Or(config.RegistrarLifetime), Custody: p.shared})
	return nil
}

func (p *process) Close() {
	if p.store != nil {
		_ = p.store.Close()
	}
	_ = errors.Join(p.registry.Close(), p.auditor.Close())
}

const (
	keepPeriod = time.Minute
	ownRenewal = time.Hour
)

// Begin also answers the other processes, once there are rules.
func (p *process) Begin(ctx context.Context, group *errgroup.Group) (http.Handler, error) {
	if k := p.config.Kubernetes; k != nil {
		p.authority = &registrar.Authority{Key: p.caKey, Store: p.store, TrustDomain: k.TrustDomain, Now: time.Now}
		err := p.certifyItself(ctx)
		if err != nil {
			return nil, err
		}
		group.Go(func() error {
			for range every.Tick(ctx, ownRenewal) {
				p.failed("the registrar's own certificate is not renewed", p.certifyItself(ctx))
			}
			return nil
		})
		if p.cluster, err = newCluster(p); err != nil {
			return nil, err
		}
	} else {
		p.own = p.Identity
	}
	listen := endpoint.Listen
	if p.cluster != nil && p.cluster.audience != "" {
		listen = endpoint.ListenOpen
	}
	l, err := listen(config.Endpoint{TCP: p.config.Listen}, p.own, p.Log)
	if err != nil {
		return nil, fmt.Errorf("listen in %s: %w", p.config.Path, err)
	}
	p.Log.Info("answering other processes", zap.Stringer("address", l.Addr()))
	group.Go(func() error { return endpoint.Serve(ctx, l, p.public(), endpoint.Limits{}, daemon.Grace, p.Log) })
	group.Go(func() error { p.Registrar.Run(ctx); return nil })
	group.Go(func() error { return p.followRules(ctx, group) })
	return p.operators(), nil
}

// followRules waits for the first rules, and then starts the work that needs them.
func (p *process) followRules(ctx context.Context, group *errgroup.Group) error {
	group.Go(func() error {
		p.store.Watch(ctx, func() { p.failed("the trust is not refreshed", p.Refresh(ctx)) }, func(err error) {
			p.failed("changes of the state are not heard", err)
		})
		return nil
	})
	before, said := "", ""
	read := func() error {
		raw, err := files.Read(p.config.Rules)
		if err != nil || string(raw) == before {
			return err
		}
		if err = p.readRules(ctx); err == nil {
			before = string(raw)
		}
		return err
	}
	paths := []string{p.config.Rules}
	err := p.WaitFor(ctx, "the registrar's rules", paths, func() error {
		err := read()
		if refused := new(registrar.Refusal); errors.As(err, &refused) && err.Error() != said {
			said = err.Error()
			p.refuseRules(err)
		}
		if err != nil { // other rules may be delivered, and a database may come up
			err = fmt.Errorf("%w (%w)", err, await.ErrPending)
		}
		return err
	})
	if err != nil {
		return err
	}
	close(p.ruled)
	group.Go(func() error { return p.store.Lead(ctx, p.lead) })
	if p.cluster != nil {
		group.Go(func() error { p.cluster.followPods(ctx); return nil })
	}
	files.Follow(ctx, []string{p.config.Rules}, read, p.refuseRules)
	return nil
}

func (p *process) readRules(ctx context.Context) error {
	rules, err := p.trialOrSigned()
	if err != nil {
		return err
	}
	if err := p.SetRules(ctx, rules); err != nil {
		return err
	}
	if p.auditor.Set() {
		if err := p.Renew(ctx, p.auditor); err != nil {
			return err
		}
	}
	if err := p.Refresh(ctx); err != nil {
		return err
	}
	if p.cluster != nil {
		every.Signal(p.cluster.ruled) // other namespaces
	}
	p.Log.Info("rules read", zap.Int64("serial", rules.Serial), zap.Int("rules", len(rules.Rules)),
		zap.Bool("signed", !rules.Trial))
	return nil
}

func (p *process) trialOrSigned() (*registrar.Rules, error) {
	if p.config.Trial {
		return p.trialRules()
	}
	roots, err := deployed.ReadRoots(p.config.Trust.Registry, p.config.Trust.Auditor)
	if err != nil {
		return nil, err
	}
	return registrar.ReadSigned(p.config.Rules, roots[1], time.Now)
}

// errOutdated ends the lead of a replica: one with the newer rules is to lead.
var errOutdated = errors.New("another replica has newer rules")

// lead does what only one replica does at a time.
func (p *process) lead(ctx context.Context) error {
	if p.Outdated() {
		return errOutdated
	}
	p.leads.Set(1)
	defer p.leads.Set(0)
	p.Log.Info("this replica leads")
	work, ctx := errgroup.WithContext(ctx)
	if p.config.Postgres != nil {
		work.Go(func() error {
			for range every.Tick(ctx, leadPeriod) {
				if p.Outdated() {
					return errOutdated
				}
			}
			return nil
		})
	}
	work.Go(func() error {
		for range every.Tick(ctx, keepPeriod) {
			p.keep(ctx)
		}
		return nil
	})
	if p.cluster != nil {
		work.Go(func() error { p.cluster.lead(ctx); return nil })
	}
	return work.Wait()
}

func (p *process) keep(ctx context.Context) {
	gone := func(string) bool { return false }
	if p.cluster != nil {
		bounded, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		gone = p.cluster.gone(bounded)
	}
	ended, err := p.Keep(ctx, gone)
	p.failed("certificates are not kept up", err)
	if ended > 0 {
		p.Log.Info("the certificates of pods that are gone have ended", zap.Int("versions", ended))
	}
	if p.auditor.Set() {
		p.failed("the deployment certificate is not renewed", p.Renew(ctx, p.auditor))
	}
}

// failed logs an error, unless it is nil or comes from the end of the process.
func (p *process) failed(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		p.Log.Error(what, zap.Error(err))
	}
}

// Serve implements [daemon.Service]: all is running already, but a registrar without rules is not ready.
func (p *process) Serve(ctx context.Context, _ *errgroup.Group, _ *daemon.Configured[config.Registrar]) error {
	select {
	case <-p.ruled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *process) Next(ctx context.Context, _ *daemon.Configured[config.Registrar]) (func() error, error) {
	return func() error { return p.readRules(ctx) }, nil
}

func apiServer(k *config.Cluster) kube.Options {
	return kube.Options{Server: k.Server, CAFile: k.CA, TokenFile: k.TokenFile}.OrInPod()
}
