package client

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/every"
)

// backlogPeriod is the time between two counts of the backlog, which can be slow.
const backlogPeriod = 15 * time.Second

// Status is the state of a sidecar's deliveries.
type Status struct {
	Away        string     `json:"away,omitempty"`   // why the last pass failed
	Undelivered int64      `json:"undelivered"`      // receipts that the node has not acknowledged
	Oldest      *time.Time `json:"oldest,omitempty"` // when the oldest of them was signed
	Refused     int64      `json:"refused"`          // sessions whose receipts the node refuses
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
func (s *Sender) Register(r prometheus.Registerer) error { return r.Register(collector{s}) }

type collector struct{ s *Sender }

var (
	undelivered = prometheus.NewDesc("mediator_receipts_undelivered",
		"Interaction receipts that the node has not acknowledged.", nil, nil)
	oldest = prometheus.NewDesc("mediator_receipts_undelivered_since_seconds",
		"When the oldest of them was signed, in Unix seconds; the present if there is none.", nil, nil)
	refusedChain = prometheus.NewDesc("mediator_receipts_refused_sessions",
		"Sessions whose receipts the node refuses.", nil, nil)
	prunedTotal = prometheus.NewDesc("mediator_receipts_pruned_undelivered_total",
		"Receipts that expired before they were delivered.", nil, nil)
	deliveredAll = prometheus.NewDesc("mediator_receipts_delivered_total",
		"Receipts that the node has acknowledged to this process.", nil, nil)
	reachable = prometheus.NewDesc("mediator_node_reachable",
		"1 if the last delivery succeeded or nothing was due; else 0.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{undelivered, oldest, refusedChain, prunedTotal, deliveredAll, reachable} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(ch chan<- prometheus.Metric) {
	tell := func(d *prometheus.Desc, as prometheus.ValueType, value float64) {
		ch <- prometheus.MustNewConstMetric(d, as, value)
	}
	up := 1.0
	if c.s.away.Load() != nil {
		up = 0
	}
	tell(reachable, prometheus.GaugeValue, up)
	tell(deliveredAll, prometheus.CounterValue, float64(c.s.sent.Load()))
	b := c.s.backlog.Load()
	if b == nil { // not counted yet
		return
	}
	tell(undelivered, prometheus.GaugeValue, float64(b.Receipts))
	tell(refusedChain, prometheus.GaugeValue, float64(b.Refused))
	tell(prunedTotal, prometheus.CounterValue, float64(b.Pruned))
	since := b.Oldest
	if since.IsZero() {
		since = c.s.now()
	}
	tell(oldest, prometheus.GaugeValue, float64(since.Unix()))
}
