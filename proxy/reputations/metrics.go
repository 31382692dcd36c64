package reputations

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	questions, posts *prometheus.CounterVec
	signed           prometheus.Gauge
}

func newMetrics() *metrics {
	m := &metrics{
		questions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediator_reputation_questions_total",
			Help: "Questions to the node for the reputation of an agent, by result: fetched or failed.",
		}, []string{"result"}),
		posts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediator_reputation_posts_total",
			Help: "Posts of agents whose reputation the policy may ask for, by whether there was one: sent or missing.",
		}, []string{"reputation"}),
		signed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mediator_reputation_signed_seconds",
			Help: "When the reputation of the last post that had one was signed, in Unix seconds; 0 before the first.",
		}),
	}
	for _, result := range []string{"fetched", "failed"} {
		m.questions.WithLabelValues(result)
	}
	for _, reputation := range []string{"sent", "missing"} {
		m.posts.WithLabelValues(reputation)
	}
	return m
}

// Register registers the metrics of the cache.
func (c *Cache) Register(r prometheus.Registerer) error {
	for _, m := range []prometheus.Collector{c.metrics.questions, c.metrics.posts, c.metrics.signed} {
		if err := r.Register(m); err != nil {
			return err
		}
	}
	return nil
}
