package reputations

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	fetched, failed, sent, missing prometheus.Counter
	signed                         prometheus.Gauge
}

// newMetrics registers nothing if r is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	with := promauto.With(r)
	questions := with.NewCounterVec(prometheus.CounterOpts{
		Name: "mediator_reputation_questions_total",
		Help: "Questions to the node for the reputation of an agent, by result: fetched or failed.",
	}, []string{"result"})
	posts := with.NewCounterVec(prometheus.CounterOpts{
		Name: "mediator_reputation_posts_total",
		Help: "Posts of agents whose reputation the policy may ask for, by whether there was one: sent or missing.",
	}, []string{"reputation"})
	return &metrics{
		fetched: questions.WithLabelValues("fetched"), failed: questions.WithLabelValues("failed"),
		sent: posts.WithLabelValues("sent"), missing: posts.WithLabelValues("missing"),
		signed: with.NewGauge(prometheus.GaugeOpts{
			Name: "mediator_reputation_signed_seconds",
			Help: "When the reputation of the last post that had one was signed, in Unix seconds; 0 before the first.",
		}),
	}
}
