package sidecar

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

func (p *sidecar) registerMetrics() error {
	gauge := func(name, help string, value func() float64) error {
		return p.Metrics.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	return errors.Join(
		p.Metrics.Register(ruleCollector{p}),
		gauge("mediator_interception_ca_until_seconds",
			"When the interception CA ends, after which no TLS connection of an agent is served, in Unix seconds.",
			func() float64 { return float64(p.ca.Expires().Unix()) }),
		gauge("mediator_contradicted_controls",
			"How many of the manifest's controls were seen not to hold; an isolated session's refuse only its own posts.",
			func() float64 {
				if d := p.observed.Load(); d != nil {
					return float64(d.contradictions())
				}
				return 0
			}),
	)
}

// ruleCollector makes a metric of each rule of the current configuration that expires.
type ruleCollector struct{ p *sidecar }

var ruleExpires = prometheus.NewDesc("mediator_rule_expires_seconds",
	"When a rule expires, after which its calls are refused, in Unix seconds.", []string{"rule"}, nil)

func (ruleCollector) Describe(ch chan<- *prometheus.Desc) { ch <- ruleExpires }

// Collect implements [prometheus.Collector].
func (c ruleCollector) Collect(ch chan<- prometheus.Metric) {
	d := c.p.observed.Load()
	if d == nil {
		return
	}
	for name, purpose := range d.purposes {
		if !purpose.Expires.IsZero() {
			ch <- prometheus.MustNewConstMetric(ruleExpires, prometheus.GaugeValue, float64(purpose.Expires.Unix()), name)
		}
	}
}
