// Package auditexport copies the record of each call that has ended to where a security team collects events: a file,
// or an OpenTelemetry collector. The ledger lists what was not exported yet ([ledger.Exports]), so a restart loses
// nothing. Posts never wait for an export.
//
//	export.go  the loop from the ledger to the destination
//	file.go    a file of lines, each record exactly once
//	logs.go    a collector, each record at least once
//	format.go  a record as JSON; ocsf.go as an event of the Open Cybersecurity Schema Framework
package auditexport

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/ledger"
)

const (
	// batch bounds the records of one write.
	batch = 256
	// gather lets records gather for one write.
	gather = 500 * time.Millisecond
	// firstRetry and lastRetry bound the pauses after failures.
	firstRetry, lastRetry = time.Second, time.Minute
)

// A Destination takes records.
type Destination interface {
	// Write returns nil once the records are safe there.
	Write(ctx context.Context, records []ledger.Record) error
	Close() error
}

// Exporter exports the records of one ledger.
type Exporter struct {
	log      *zap.Logger
	woken    chan struct{} // a call has ended
	exported prometheus.Counter
	failures prometheus.Counter
	oldest   prometheus.Gauge

	mu sync.Mutex // guards to, also while it writes
	to Destination
}

// New makes an exporter and registers its metrics.
func New(log *zap.Logger, r prometheus.Registerer) *Exporter {
	with := promauto.With(r)
	return &Exporter{log: log, woken: make(chan struct{}, 1),
		exported: with.NewCounter(prometheus.CounterOpts{Name: "mediator_audit_exported_total",
			Help: "Records that the audit export has delivered."}),
		failures: with.NewCounter(prometheus.CounterOpts{Name: "mediator_audit_export_failures_total",
			Help: "Attempts of the audit export that failed; it tries again."}),
		oldest: with.NewGauge(prometheus.GaugeOpts{Name: "mediator_audit_export_oldest_seconds",
			Help: "When the oldest call ended whose record waits for the audit export, in Unix seconds; 0 if none waits."}),
	}
}

// Wake says that a call has ended. It does not wait.
func (e *Exporter) Wake() {
	select {
	case e.woken <- struct{}{}:
	default: // a signal is pending
	}
}

// Use makes the exporter write to another destination, and closes the one before. It comes before Run.
func (e *Exporter) Use(d Destination) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.to != nil {
		e.note(e.to.Close())
	}
	e.to = d
}

// Run exports the records that from lists until ctx ends. Then it closes the destination.
func (e *Exporter) Run(ctx context.Context, from ledger.Exports) {
	defer e.close()
	var pause time.Duration
	for {
		n, err := e.export(ctx, from)
		if ctx.Err() != nil {
			return
		}
		e.note(err)
		switch {
		case err != nil:
			pause = min(max(2*pause, firstRetry), lastRetry)
		case n > 0:
			pause = gather
			if n == batch {
				pause = 0
			}
		default:
			select {
			case <-e.woken:
			case <-ctx.Done():
				return
			}
			pause = gather
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// export exports one batch and returns its size.
func (e *Exporter) export(ctx context.Context, from ledger.Exports) (int, error) {
	records, err := from.Unexported(ctx, batch)
	if err != nil || len(records) == 0 {
		if err == nil {
			e.oldest.Set(0)
		}
		return 0, err
	}
	e.oldest.Set(float64(records[0].Finished.Unix()))
	if err := e.write(ctx, records); err != nil {
		return 0, err
	}
	ids := make([]string, len(records))
	for i, r := range records {
		ids[i] = r.ID
	}
	if err := from.Exported(ctx, ids...); err != nil {
		return 0, err
	}
	e.exported.Add(float64(len(records)))
	return len(records), nil
}

func (e *Exporter) write(ctx context.Context, records []ledger.Record) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.to.Write(ctx, records)
}

// note logs and counts a failure.
func (e *Exporter) note(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	e.failures.Inc()
	e.log.Error("the audit export fails; the records wait in the ledger", zap.Error(err))
}

func (e *Exporter) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.note(e.to.Close())
}
