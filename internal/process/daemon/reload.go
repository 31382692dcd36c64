package daemon

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

// ConfigStatus says which configuration a process uses, each part by its SHA-256, and how the last reload ended.
type ConfigStatus struct {
	Configuration string         `json:"configuration"`         // the configuration file
	Environment   string         `json:"environment,omitempty"` // of a sidecar: the binary and the configuration file
	Manifest      string         `json:"manifest,omitempty"`
	Policy        string         `json:"policy,omitempty"` // of a control plane
	Since         time.Time      `json:"since"`
	Refused       *refusedReload `json:"refused,omitempty"` // the last reload, if it was refused
}

type refusedReload struct {
	At     time.Time `json:"at"`
	Code   string    `json:"code"`
	Detail string    `json:"detail"`
}

func (c ConfigStatus) String() string {
	s := "configuration " + c.Configuration
	for _, of := range [...]struct{ what, hash string }{{"manifest", c.Manifest}, {"policy", c.Policy}} {
		if of.hash != "" {
			s += ", " + of.what + " " + of.hash
		}
	}
	return s
}

const reloadTimeout = 30 * time.Second

// Reloader makes a process apply its changed configuration, on SIGHUP and on POST /v1/reload: all of it or nothing.
type Reloader struct {
	log     *zap.Logger
	hangups chan os.Signal

	mu   sync.Mutex                                      // held during a reload, so that one follows the other
	take func(ctx context.Context) (ConfigStatus, error) // nil until Start

	current atomic.Pointer[ConfigStatus]
	results *prometheus.CounterVec
	refused prometheus.Gauge
	taken   prometheus.Gauge
}

// NewReloader makes the reloader of a process. It refuses to reload until Start.
func NewReloader(log *zap.Logger, registry prometheus.Registerer) *Reloader {
	with := promauto.With(registry)
	r := &Reloader{
		log: log, hangups: make(chan os.Signal, 1),
		results: with.NewCounterVec(prometheus.CounterOpts{
			Name: "mediator_reloads_total", Help: "Reloads of the configuration by result: taken or refused.",
		}, []string{"result"}),
		refused: with.NewGauge(prometheus.GaugeOpts{
			Name: "mediator_reload_refused",
			Help: "1 if the last reload was refused, so that an older configuration applies; else 0.",
		}),
		taken: with.NewGauge(prometheus.GaugeOpts{
			Name: "mediator_configuration_seconds",
			Help: "When the process took over its configuration, in Unix seconds.",
		}),
	}
	for _, result := range []string{"taken", "refused"} {
		r.results.WithLabelValues(result)
	}
	return r
}

// Start sets the status of the first configuration, and the function that takes over the next one or changes nothing.
func (r *Reloader) Start(first ConfigStatus, take func(context.Context) (ConfigStatus, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take = take
	r.put(first)
}

func (r *Reloader) put(c ConfigStatus) {
	c.Since = time.Now().UTC()
	r.current.Store(&c)
	r.taken.Set(float64(c.Since.Unix()))
	r.refused.Set(0)
}

// Watch reloads on each SIGHUP until ctx ends.
func (r *Reloader) Watch(ctx context.Context) {
	defer signal.Stop(r.hangups)
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.hangups:
			_, _ = r.Reload(ctx) // Reload logs its result
		}
	}
}

// Reload takes over the configuration that the files hold now, or refuses it.
func (r *Reloader) Reload(ctx context.Context) (ConfigStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.take == nil {
		r.log.Error("not reloaded: the process has not started yet")
		return ConfigStatus{},
			refusal.New("not_ready", "the process has not started yet; it will read the configuration when it does")
	}
	ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	c, err := r.take(ctx)
	if err != nil {
		return ConfigStatus{}, r.refuse(err)
	}
	r.put(c)
	r.results.WithLabelValues("taken").Inc()
	r.log.Info("reloaded", zap.String("configuration", c.Configuration), zap.String("environment", c.Environment),
		zap.String("manifest", c.Manifest), zap.String("policy", c.Policy))
	return *r.current.Load(), nil
}

// refuse notes a refusal in every place where an operator may look for it.
func (r *Reloader) refuse(err error) error {
	var known *refusal.Refusal
	if !errors.As(err, &known) || known.Code() != "restart_required" {
		err = refusal.New("reload_refused", "the previous configuration stays: %w%s", err, CodeOf(err))
	}
	d := problem.DetailsOf(err)
	still := *r.current.Load()
	still.Refused = &refusedReload{At: time.Now().UTC(), Code: d.Code, Detail: d.Detail}
	r.current.Store(&still)
	r.refused.Set(1)
	r.results.WithLabelValues("refused").Inc()
	r.log.Error("not reloaded: the previous configuration stays", zap.String("code", d.Code), zap.Error(err))
	return err
}

func restartRequired(keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return refusal.New("restart_required", "the previous configuration stays: only a restart applies a change of %s",
		strings.Join(keys, ", "))
}

func (r *Reloader) serve(w http.ResponseWriter, req *http.Request) {
	if !endpoint.FromOwner(req) {
		problem.Write(w, refusal.New("reload_refused", "only root and the process's own user can reload it"))
		return
	}
	c, err := r.Reload(context.WithoutCancel(req.Context())) // a reload that has started always finishes
	wire.Write(w, c, err)
}

// Handle answers POST /v1/reload, for root and the user of this process, /healthz, /startupz and /readyz. ready says
// why the process is not ready.
func (r *Reloader) Handle(mux *http.ServeMux, ready Check) {
	mux.HandleFunc("POST /v1/reload", r.serve)
	r.health(mux, ready)
}

// health answers /healthz, /startupz (the process has its first configuration) and /readyz (its callers would not be
// refused now).
func (r *Reloader) health(mux *http.ServeMux, ready Check) {
	mux.HandleFunc("GET /healthz", wire.Answer(func(*http.Request) (map[string]bool, error) {
		return map[string]bool{"healthy": true}, nil
	}))
	mux.HandleFunc("GET /startupz", wire.Answer(func(req *http.Request) (map[string]bool, error) {
		if r.current.Load() == nil {
			return nil, cmp.Or(ready(req.Context()), error(errStarting))
		}
		return map[string]bool{"started": true}, nil
	}))
	mux.HandleFunc("GET /readyz", wire.Answer(func(req *http.Request) (any, error) {
		c := r.current.Load()
		if err := ready(req.Context()); err != nil || c == nil {
			return nil, cmp.Or(err, error(errStarting))
		}
		return struct {
			Ready bool `json:"ready"`
			ConfigStatus
		}{true, *c}, nil
	}))
}

var errStarting = refusal.New("not_ready", "the process is not ready: it is starting or ending")

// CodeOf returns the code of an error in parentheses, to follow its sentence, or nothing if it has no code.
func CodeOf(err error) string {
	if code := refusal.CodeOf(err); code != "" {
		return " (" + code + ")"
	}
	return ""
}
