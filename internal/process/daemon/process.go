// Package daemon holds what the sidecar, the trigger service, the control plane and the node have in common as
// processes.
//
//	process.go       the parts of each process
//	run.go           the order in which it starts, reloads and ends
//	plan.go          what it takes from its configuration
//	endpoint.go      where other processes reach it, and which users it admits
//	listener.go      how many connections strangers may hold
//	tls.go           the TLS certificate of a listener, and how a new one is taken over
//	roles.go         its signing roles, and what the key registry reads of them
//	certificates.go  which versions of its keys sign
//	trust.go         which keys and certificates it trusts, by the trust bundle
//	observer.go      what it observes of its own deployment
//	confinement.go   what it takes from itself before it serves
//	reload.go        how it takes over a changed configuration
//	ready.go         what its callers would meet now
//	metrics.go       what its metrics say of trust, keys and Vault
//	log.go           its log
package daemon

import (
	"context"
	"net"
	"net/http"
	"regexp"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/keystore"
)

// Process holds the parts of each process, for as long as it runs.
type Process struct {
	Log      *zap.Logger
	LogLater *zap.Logger // its lines may wait
	Metrics  *prometheus.Registry
	Reloader *Reloader
	Keys     keystore.Store
	Roles    []Role                   // signing roles, each with one of the keys
	Roots    []evidence.Root          // nil until WaitForRoots
	Observer atomic.Pointer[Observer] // of the current configuration
	Confined *confine.Confined        // nil until Confine
	// Trust follows the bundle for what this process verifies. The trigger service and the node verify nothing by it, and
	// add nothing.
	Trust TrustFollowers

	Address net.Addr    // of the endpoint; nil until it is open
	Ready   atomic.Bool // the process does its work

	certificates atomic.Pointer[CertificateFollower] // nil until WaitForCertificates
	waiting      atomic.Pointer[string]              // what the process waits for before it is ready; nil if for nothing
}

// New opens the custody of a process, and makes SIGHUP reload the process. The caller closes the Keys.
func New(log *zap.Logger, c config.Custody) (*Process, error) {
	p := &Process{Log: log, Metrics: NewMetrics()}
	var err error
	if p.Reloader, err = NewReloader(log, p.Metrics); err != nil {
		return nil, err
	}
	if err = p.Metrics.Register(stateCollector{p}); err != nil {
		return nil, err
	}
	p.Reloader.OnHangup()
	if p.Keys, err = keystore.Open(c, log); err != nil {
		return nil, err
	}
	return p, nil
}

// Mux answers what operators ask every process: its public keys, its observations, its confinement, metrics, health,
// and a reload. checks say what its callers would meet once the process is ready.
func (p *Process) Mux(checks ...Check) *http.ServeMux {
	meets := &probe{checks: append([]Check{p.signs, p.judges}, checks...)}
	mux := http.NewServeMux()
	p.rolesHandler(mux)
	p.observations(mux)
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.Metrics, promhttp.HandlerOpts{}))
	p.Reloader.Handle(mux, func(ctx context.Context) error {
		if !p.Ready.Load() {
			return p.notReady()
		}
		return meets.ask(ctx)
	})
	return mux
}

// ReadSecrets is for services that log in for nothing but keys.
func (p *Process) ReadSecrets(context.Context) error { return nil }

// Close is for services that open nothing.
func (p *Process) Close() {}

// NewMetrics makes a registry with the metrics of every process: goroutines, memory, descriptors, and the heap that the
// last garbage collection left (go_gc_heap_live_bytes), which shows growth without garbage.
func NewMetrics() *prometheus.Registry {
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// CheckBound refuses a fresh configuration whose bound keys differ from the running one. The content of a file can be
// bound too. trust is the trust of the fresh configuration.
func (p *Process) CheckBound(running, fresh any, trust config.Trust) error {
	keys := config.ChangedBoundKeys(running, fresh)
	others, err := p.changedRoots(trust)
	if err != nil {
		return err
	}
	keys = append(keys, others...)
	slices.Sort(keys)
	return restartRequired(slices.Compact(keys))
}
