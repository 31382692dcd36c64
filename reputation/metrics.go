package reputation

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/reputation/internal/shelf"
)

// metrics count what the node does. All labels are our own constants.
type metrics struct {
	receipts, refused, reputations, steps, statements *prometheus.CounterVec
	turns                                             prometheus.Counter
	upToDate                                          prometheus.Gauge
}

// newMetrics registers nothing if r is nil.
func newMetrics(r prometheus.Registerer, s *shelf.Shelf[sessionKey, reading]) *metrics {
	with := promauto.With(r)
	counter := func(name, help, label string) *prometheus.CounterVec {
		return with.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mediator_node_cached_receipts",
		Help: "Receipts of the sessions in memory. One with many tool calls counts as several.",
	}, s.Total)
	return &metrics{
		receipts: counter("mediator_node_receipts_total",
			"Delivered receipts, by result: kept or known.", "result"),
		refused: counter("mediator_node_refused_total",
			"Sessions whose delivered receipts were refused, by code.", "code"),
		reputations: counter("mediator_node_reputations_total",
			"Requested reputations, by result: signed, the same as before, refused or failed.", "result"),
		steps: counter("mediator_node_disputes_total",
			"Entries in the log of disputes, by kind: published, final, opened, reviewing, voted, resolved, "+
				"appealed, violation or set_back.", "step"),
		statements: counter("mediator_node_statements_refused_total",
			"Refused signals, disputes and decisions, by code.", "code"),
		turns: with.NewCounter(prometheus.CounterOpts{
			Name: "mediator_node_disputes_turns_seconds_total",
			Help: "Seconds for which the process had the log of disputes for itself. All replicas together can have one a second.",
		}),
		upToDate: with.NewGauge(prometheus.GaugeOpts{
			Name: "mediator_node_logs_up_to_date_seconds",
			Help: "When all closed sessions were last entered, or the start of the process, in Unix seconds.",
		}),
	}
}

func (m *metrics) noReputation(err error) {
	switch {
	case err == nil || errors.Is(err, context.Canceled): // the client left
	case problem.DetailsOf(err).Status < http.StatusInternalServerError:
		m.reputations.WithLabelValues("refused").Inc()
	default:
		m.reputations.WithLabelValues("failed").Inc()
	}
}

func (m *metrics) delivered(all, kept int, err error) {
	if err != nil {
		m.refused.WithLabelValues(problem.DetailsOf(err).Code).Inc()
		return
	}
	m.receipts.WithLabelValues("kept").Add(float64(kept))
	m.receipts.WithLabelValues("known").Add(float64(all - kept))
}
