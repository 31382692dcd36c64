package sidecar

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/actionproof/mediator/proxy/credential"
)

func (p *sidecar) registerMetrics() {
	with := promauto.With(p.Metrics)
	p.proxied = with.NewCounterVec(prometheus.CounterOpts{Name: "mediator_upstream_proxy_connections_total",
		Help: "Connections tried through the upstream proxy, by the code of their failure; empty for success."},
		[]string{"code"})
	with.NewGaugeFunc(prometheus.GaugeOpts{Name: "mediator_interception_ca_until_seconds",
		Help: "When the interception CA ends, after which no TLS connection of an agent is served, in Unix seconds."},
		func() float64 { return float64(p.ca.Expires().Unix()) })
	with.NewGaugeFunc(prometheus.GaugeOpts{Name: "mediator_contradicted_controls",
		Help: "How many of the manifest's controls were seen not to hold; an isolated session's refuse only its own " +
			"posts."},
		func() float64 {
			if s := p.current.Load(); s != nil {
				return float64(s.deployment.contradictions())
			}
			return 0
		})
	p.Metrics.MustRegister(ruleMetrics{p})
}

var (
	byRule          = []string{"rule"}
	credentialUntil = prometheus.NewDesc("mediator_credential_until_seconds",
		"When the credential or client certificate of a rule ends, if that is known, in Unix seconds.", byRule, nil)
	credentialRead = prometheus.NewDesc("mediator_credential_read_seconds",
		"When the credential or client certificate of a rule was last read or renewed, in Unix seconds.", byRule, nil)
	credentialFailures = prometheus.NewDesc("mediator_credential_failures_total",
		"Calls of a rule that were refused because its credential or client certificate could not be had.", byRule, nil)
	ruleExpires = prometheus.NewDesc("mediator_rule_expires_seconds",
		"When a rule expires, after which its calls are refused, in Unix seconds.", byRule, nil)
)

// ruleMetrics are the figures of the present configuration's rules. A credential is renewed when it is used.
type ruleMetrics struct{ p *sidecar }

func (ruleMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{credentialUntil, credentialRead, credentialFailures, ruleExpires} {
		to <- desc
	}
}

func (m ruleMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.p.current.Load()
	if s == nil {
		return
	}
	at := func(desc *prometheus.Desc, t time.Time, rule string) {
		if !t.IsZero() {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(t.Unix()), rule)
		}
	}
	all := make(map[string]credential.Stats)
	for rule, c := range s.credentials.byRule {
		all[rule] = c.Stats()
	}
	for rule, c := range s.credentials.certificates {
		all[rule] = all[rule].With(c.Stats())
	}
	for rule, stats := range all {
		at(credentialUntil, stats.End, rule)
		at(credentialRead, stats.Read, rule)
		to <- prometheus.MustNewConstMetric(credentialFailures, prometheus.CounterValue, float64(stats.Failures), rule)
	}
	for rule, purpose := range s.purposes {
		at(ruleExpires, purpose.Expires, rule)
	}
}
