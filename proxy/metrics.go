package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/actionproof/mediator/ledger"
)

// Metrics counts calls. Labels come from configuration and our own tables, never from agents.
type Metrics struct {
	calls   *prometheus.CounterVec
	took    *prometheus.HistogramVec
	steps   *prometheus.HistogramVec
	leftOut prometheus.Counter
}

// NewMetrics registers the metrics of all pipelines of a process.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediator_calls_total", Help: "Calls by flow, state, rule and refusal code.",
		}, []string{"flow", "state", "rule", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mediator_call_seconds", Help: "Time from the request to its recorded outcome.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"flow", "state"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mediator_step_seconds", Help: "Time of each step of a post.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}, []string{"step"}),
		leftOut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mediator_records_left_out_total",
			Help: "Calls beyond a quota, which left no record: those of unknown callers, and refused ones.",
		}),
	}
	for _, c := range []prometheus.Collector{m.calls, m.took, m.steps, m.leftOut} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// observe counts a call. exemplar names its trace, or is nil.
func (m *Metrics) observe(p ledger.Record, exemplar prometheus.Labels) {
	m.calls.WithLabelValues(p.Flow, string(p.State), p.Rule, p.Code).Inc()
	note(m.took.WithLabelValues(p.Flow, string(p.State)), p.Finished.Sub(p.Started), exemplar)
	if p.Flow == flowPost {
		for _, s := range p.Steps {
			note(m.steps.WithLabelValues(s.Name), time.Duration(s.Micros)*time.Microsecond, exemplar)
		}
	}
}

func note(o prometheus.Observer, took time.Duration, exemplar prometheus.Labels) {
	if exemplar == nil {
		o.Observe(took.Seconds())
		return
	}
	o.(prometheus.ExemplarObserver).ObserveWithExemplar(took.Seconds(), exemplar)
}
