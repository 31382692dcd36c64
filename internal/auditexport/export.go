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
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/otlp"
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
	// Write returns nil once the records are safe there, or a [RefusedError].
	Write(ctx context.Context, records []ledger.Export) error
	Close() error
}

// RefusedError is the error of a destination that refuses some records for good. The others of the batch are safe.
type RefusedError struct {
	Records int
	Why     error // of one of them
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%d records are refused and not sent again: %v", e.Records, e.Why)
}

// Exporter exports the records of one ledger.
type Exporter struct {
	log      *zap.Logger
	woken    chan struct{}    // a call has ended
	next     chan Destination // that Run takes over; at most one
	exported prometheus.Counter
	refused  prometheus.Counter
	failures prometheus.Counter
	oldest   prometheus.Gauge
	waiting  bool // oldest has the time of a record that still waits; only Run uses this and to
	to       Destination
}

// New makes an exporter and registers its metrics.
func New(log *zap.Logger, r prometheus.Registerer) *Exporter {
	with := promauto.With(r)
	return &Exporter{log: log, woken: make(chan struct{}, 1), next: make(chan Destination, 1),
		exported: with.NewCounter(prometheus.CounterOpts{Name: "mediator_audit_exported_total",
			Help: "Records that the audit export has delivered."}),
		refused: with.NewCounter(prometheus.CounterOpts{Name: "mediator_audit_export_refused_total",
			Help: "Records that the collector refuses, and that the audit export has therefore left out."}),
		failures: with.NewCounter(prometheus.CounterOpts{Name: "mediator_audit_export_failures_total",
			Help: "Attempts of the audit export that failed; it tries again."}),
		oldest: with.NewGauge(prometheus.GaugeOpts{Name: "mediator_audit_export_oldest_seconds",
			Help: "When the oldest call ended whose record waits for the audit export, in Unix " +
				"seconds; 0 if none waits."}),
	}
}

// Wake says that a call has ended. It does not wait.
func (e *Exporter) Wake() { every.Signal(e.woken) }

// Use makes the exporter write to another destination from the next batch on, and close the one before. It comes before
// Run, and does not wait. Only one goroutine at a time calls it.
func (e *Exporter) Use(d Destination) {
	select {
	case <-e.next: // Run has never written to it
	default:
	}
	e.next <- d
}

// Run exports the records that from lists until ctx ends. Then it closes the destination.
func (e *Exporter) Run(ctx context.Context, from ledger.Exports) {
	e.to = <-e.next
	defer func() { e.note(e.to.Close()) }()
	var pause time.Duration
	for {
		select {
		case d := <-e.next:
			e.takeOver(d)
		default:
		}
		n, err := e.export(ctx, from)
		if ctx.Err() != nil {
			return
		}
		e.note(err)
		switch {
		case err != nil:
			pause = max(min(max(2*pause, firstRetry), lastRetry), otlp.WaitOf(err))
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
		case d := <-e.next:
			e.takeOver(d)
			pause = 0
		case <-ctx.Done():
			return
		}
	}
}

func (e *Exporter) takeOver(d Destination) {
	e.note(e.to.Close())
	e.to = d
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
	if !e.waiting { // otherwise another call may have become the first
		oldest, err := records[0].Bare()
		if err != nil {
			return 0, err
		}
		e.waiting = true
		e.oldest.Set(float64(oldest.Finished.Unix()))
	}
	err = e.to.Write(ctx, records)
	exported := len(records)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		exported -= refused.Records
		e.refused.Add(float64(refused.Records))
		e.log.Error("the audit export leaves out records", zap.Error(err))
	} else if err != nil {
		return 0, err
	}
	if err := from.Exported(ctx, records...); err != nil {
		return 0, err
	}
	e.waiting = false
	e.exported.Add(float64(exported))
	return len(records), nil
}

// note logs and counts a failure.
func (e *Exporter) note(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	e.failures.Inc()
	e.log.Error("the audit export fails; the records wait in the ledger", zap.Error(err))
}
