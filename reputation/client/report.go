package client

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/ledger"
)

// backlogPeriod is the time between two counts of the backlog, which can be slow.
const backlogPeriod = 15 * time.Second

// Status is the state of a sidecar's deliveries.
type Status struct {
	Away        string     `json:"away,omitempty"` // why the last pass failed
	Undelivered int64      `json:"undelivered"`
	Oldest      *time.Time `json:"oldest,omitempty"` // when the oldest of them was signed
	Refused     int64      `json:"refused"`
	Reason      string     `json:"reason,omitempty"` // of one such refusal
	Pruned      int64      `json:"pruned"`           // receipts removed undelivered since the process started
}

// Status reads the backlog from the ledger.
func (s *Sender) Status(ctx context.Context) (Status, error) {
	b, err := s.ledger.Backlog(ctx)
	if err != nil {
		return Status{}, err
	}
	out := Status{Undelivered: b.Receipts, Refused: b.Refused, Reason: b.Reason, Pruned: b.Pruned}
	if !b.Oldest.IsZero() {
		out.Oldest = &b.Oldest
	}
	if why := s.away.Load(); why != nil {
		out.Away = *why
	}
	return out, nil
}

// watch counts the backlog for the metrics and logs receipts that were removed undelivered.
func (s *Sender) watch(ctx context.Context) {
	var pruned int64
	look := func() {
		b, err := s.ledger.Backlog(ctx)
		if err != nil {
			return // the ledger logs it
		}
		if b.Pruned > pruned {
			s.log.Error("receipts expired before they were delivered to the node: their sessions cannot be scored",
				zap.Int64("receipts", b.Pruned-pruned))
			pruned = b.Pruned
		}
		s.backlog.Store(&b)
	}
	look()
	for range every.Tick(ctx, backlogPeriod) {
		look()
	}
}

// Register registers the sender's metrics.
func (s *Sender) Register(r prometheus.Registerer) {
	with := promauto.With(r)
	backlog := func() ledger.Backlog { return *cmp.Or(s.backlog.Load(), new(ledger.Backlog)) }
	gauge := func(name, help string, value func() float64) {
		with.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	counter := func(name, help string, value func() int64) {
		with.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	gauge("mediator_receipts_undelivered", "Interaction receipts that the node has not acknowledged.",
		func() float64 { return float64(backlog().Receipts) })
	gauge("mediator_receipts_undelivered_since_seconds",
		"When the oldest of them was signed, in Unix seconds; the present if there is none.", func() float64 {
			if oldest := backlog().Oldest; !oldest.IsZero() {
				return float64(oldest.Unix())
			}
			return float64(s.now().Unix())
		})
	gauge("mediator_receipts_refused_sessions", "Sessions whose receipts the node refuses.",
		func() float64 { return float64(backlog().Refused) })
	counter("mediator_receipts_pruned_undelivered_total", "Receipts that expired before they were delivered.",
		func() int64 { return backlog().Pruned })
	counter("mediator_receipts_delivered_total", "Receipts that the node has acknowledged to this process.", s.sent.Load)
	gauge("mediator_node_reachable", "1 if the last delivery succeeded or nothing was due; else 0.", func() float64 {
		if s.away.Load() != nil {
			return 0
		}
		return 1
	})
}
