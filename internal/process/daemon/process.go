// Package daemon has the common parts of the processes: sidecar, trigger service, control plane, node and registrar.
// [Run] starts one, reloads it and ends it.
//
//	run.go           the start, step by step; a reload; the addresses
//	process.go       the parts of a process
//	plan.go          the files and addresses that it uses; confinement.go leaves it no others; observer.go looks at them
//	tls.go           its certificate, and who may ask it; exchange.go gets the certificate for a token
//	roles.go         its signing keys
//	trust.go         the manifest and the pinned root keys
//	bundle.go        the trust bundle, by which it verifies and signs
//	registration.go  asks the registrar, if there is one, for certificates of its keys and for the trust
//	reload.go, ready.go, metrics.go  what operators ask of it
package daemon

import (
	"context"
	"net"
	"net/http"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/keystore"
	"github.com/actionproof/mediator/internal/tracing"
)

// Process holds the parts of each process, for as long as it runs.
type Process struct {
	Log      *zap.Logger
	Metrics  *prometheus.Registry
	Reloader *Reloader
	Keys     keystore.Store
	Roles    []Role                   // signing roles, each with one of the keys
	Roots    []evidence.Root          // nil until its files are read
	Observer atomic.Pointer[Observer] // of the current configuration
	Confined *confine.Confined        // nil until Confine
	Trust    trustFollowers           // empty in the trigger service and the node, which verify nothing by the bundle
	Identity *identity.Identity       // nil without tls
	Tracing  *tracing.Tracing         // nil if nothing is traced

	KeySuffix string // ends the names of this process's keys, after a slash, if no other process has them: see OwnKeys

	// Followed, if it is set in Roles, gets the current trust after that has taken over a changed bundle.
	Followed func(*TrustFollower)

	Address net.Addr    // the endpoint's TCP address; nil without one, and until it is open
	Ready   atomic.Bool // the process does its work

	follow  func(ctx context.Context) // renews the Identity; nil without one
	ready   Check                     // why its callers would be refused; nil until Mux
	signing atomic.Pointer[bundle]    // by which the roles sign; nil until it certifies them
	// why the newest bundle certifies none of a role's versions; nil if it certifies one of each
	uncertified atomic.Pointer[error]
	// what the process waits for before it is ready; nil if for nothing
	waiting atomic.Pointer[string]
}

// New opens the custody and reads the TLS certificate of a process, and makes SIGHUP reload the process. The caller
// closes the Keys.
func New(ctx context.Context, log *zap.Logger, c config.Process) (*Process, error) {
	p := &Process{Log: log, Metrics: NewMetrics()}
	p.Reloader = NewReloader(log, p.Metrics)
	p.Metrics.MustRegister(stateCollector{p})
	signal.Notify(p.Reloader.hangups, syscall.SIGHUP) // which reloads the process instead of ending it
	if err := p.loadIdentity(ctx, c); err != nil {
		return nil, err
	}
	if c.Custody.Type == "memory" && c.Registrar != nil && p.Identity != nil {
		p.OwnKeys()
	}
	var err error
	p.Keys, err = keystore.Open(c.Custody, log)
	return p, err
}

// OwnKeys ends the names of the process's keys with the last segment of its SPIFFE id, because only it has them.
func (p *Process) OwnKeys() {
	id := string(p.Identity.ID())
	p.KeySuffix = id[strings.LastIndexByte(id, '/')+1:]
}

// Mux answers operators' requests to any process: public keys, observations, confinement, metrics, health and reload.
// checks say why the callers of a ready process would be refused.
func (p *Process) Mux(checks ...Check) *http.ServeMux {
	meets := &probe{checks: append([]Check{p.identified, p.signs, p.judges}, checks...)}
	p.ready = func(ctx context.Context) error {
		if !p.Ready.Load() {
			return p.notReady()
		}
		return meets.ask(ctx)
	}
	mux := http.NewServeMux()
	p.rolesHandler(mux)
	p.observations(mux)
	p.metrics(mux)
	p.Reloader.Handle(mux, p.ready)
	return mux
}

func (p *Process) metrics(mux *http.ServeMux) {
	// exemplars need OpenMetrics
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.Metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
}

// probes answers what everyone may ask: the metrics and the health of a process whose Mux is made.
func (p *Process) probes() http.Handler {
	mux := http.NewServeMux()
	p.metrics(mux)
	p.Reloader.health(mux, p.ready)
	return mux
}

// Open, ReadSecrets and Close are for services that need none.
func (p *Process) Open(context.Context) error        { return nil }
func (p *Process) ReadSecrets(context.Context) error { return nil }
func (p *Process) Close()                            {}

// NewMetrics makes a registry with the metrics of every process. go_gc_heap_live_bytes, the heap after the last garbage
// collection, shows a leak best.
func NewMetrics() *prometheus.Registry {
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// checkBound refuses a fresh configuration that needs a restart: other bound keys, or other content of their files.
// trust is the trust of the fresh configuration.
func (p *Process) checkBound(running, fresh any, trust config.Trust) error {
	keys := fields.ChangedBound(running, fresh)
	others, err := p.changedRoots(trust)
	if err != nil {
		return err
	}
	keys = append(keys, others...)
	slices.Sort(keys)
	return restartRequired(slices.Compact(keys))
}
