package sidecar

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

func (p *sidecar) registerMetrics() error {
	gauge := func(name, help string, value func() float64) error {
		return p.Metrics.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	p.proxied = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mediator_upstream_proxy_connections_total",
		Help: "Connections tried through the upstream proxy, by the code of their failure; empty for success."},
		[]string{"code"})
	return errors.Join(
		p.Metrics.Register(p.proxied),
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
