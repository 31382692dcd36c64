package reputation

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/actionproof/mediator/internal/problem"
)

// metrics count what the node does. Their labels come from our own tables alone.
type metrics struct {
	receipts, refused, challenges, scores, entries, reputations, steps, statements *prometheus.CounterVec
	upToDate                                                                       prometheus.Gauge
}

// newMetrics makes the metrics, and registers them unless r is nil.
func newMetrics(r prometheus.Registerer, s *sessions) (*metrics, error) {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		receipts:    counter("mediator_node_receipts_total", "Receipts that were delivered, by result: kept, or known already.", "result"),
		refused:     counter("mediator_node_refused_total", "Sessions of deliveries whose receipts were refused, by code.", "code"),
		challenges:  counter("mediator_node_challenges_total", "Challenges, by step: issued, committed or revealed.", "step"),
		scores:      counter("mediator_node_scores_total", "Scores that were asked for, by result: signed, or the same as the last.", "result"),
		entries:     counter("mediator_node_entries_total", "Closed sessions, by result: entered in the log of their agent, the same as before, or refused.", "result"),
		reputations: counter("mediator_node_reputations_total", "Reputations that were asked for, by result: signed, the same as the last, refused, or failed.", "result"),
		steps:       counter("mediator_node_disputes_total", "Entries of the log of signals and disputes, by what happened: published, final, opened, reviewing, resolved, or a violation.", "step"),
		statements:  counter("mediator_node_statements_refused_total", "Signals, disputes and decisions that were refused, by code.", "code"),
		upToDate: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mediator_node_logs_up_to_date_seconds", Help: "When the logs of the agents last had all closed sessions, or else when the process began, in Unix seconds.",
		}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.receipts, m.refused, m.challenges, m.scores, m.entries, m.reputations, m.steps, m.statements, m.upToDate, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mediator_node_cached_receipts", Help: "Receipts of the sessions that are kept in memory. One with many calls of tools counts as several.",
	}, s.receipts)} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// noReputation counts a reputation that was not given because of err.
func (m *metrics) noReputation(err error) {
	switch {
	case err == nil || errors.Is(err, context.Canceled): // by the one who asks
	case problem.DetailsOf(err).Status < http.StatusInternalServerError:
		m.reputations.WithLabelValues("refused").Inc()
	default:
		m.reputations.WithLabelValues("failed").Inc()
	}
}

// delivered counts the receipts of one session in a delivery.
func (m *metrics) delivered(all, kept int, err error) {
	if err != nil {
		m.refused.WithLabelValues(problem.DetailsOf(err).Code).Inc()
		return
	}
	m.receipts.WithLabelValues("kept").Add(float64(kept))
	m.receipts.WithLabelValues("known").Add(float64(all - kept))
}
