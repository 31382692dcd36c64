package main

import (
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/confine"
)

// process is what serve, trigger and control are all made of, for as long as they run.
type process struct {
	log      *zap.Logger
	registry *prometheus.Registry
	reload   *reloader
	keys     keyring
	roles    []role                   // in which it signs, each with one of the keys
	roots    []evidence.Root          // nil until openRoots
	looking  atomic.Pointer[observer] // what it looks at, when it starts and when it is asked
	confined *confine.Confined        // nil until it has confined itself
}

// openProcess opens the custody of a process, whose keys its caller closes, and has SIGHUP reload it. file makes a path absolute.
func openProcess(log *zap.Logger, c custodyConfig, file func(string) string) (*process, error) {
	p := &process{log: log, registry: newMetrics()}
	var err error
	if p.reload, err = newReloader(log, p.registry); err != nil {
		return nil, err
	}
	p.reload.onHangup()
	if p.keys, err = c.open(file, log); err != nil {
		return nil, err
	}
	return p, nil
}

// mux answers what operators ask every process: its public keys, what it sees, metrics, health, and a reload. ready says whether it does its
// work yet.
func (p *process) mux(ready func() bool) *http.ServeMux {
	mux := http.NewServeMux()
	rolesHandler(mux, p.roles)
	looksHandler(mux, &p.looking)
	metricsHandler(mux, p.registry)
	p.reload.handle(mux, ready)
	return mux
}

// checkBound refuses a configuration that differs from the running one in what is bound to the process. unchanged says so of what stands in
// files, by the key that names the file.
func (p *process) checkBound(running, fresh any, trust trustConfig, unchanged map[string]bool) error {
	keys := restartKeys(running, fresh)
	for key, same := range unchanged {
		if !same {
			keys = append(keys, key)
		}
	}
	others, err := p.otherRoots(trust)
	if err != nil {
		return err
	}
	keys = append(keys, others...)
	slices.Sort(keys)
	return restartRequired(slices.Compact(keys))
}
