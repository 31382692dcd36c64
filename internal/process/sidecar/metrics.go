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
		Help: "How many of the manifest's controls were seen not to hold; an isolated session's refuse only its own posts."},
		func() float64 {
			if d := p.observed.Load(); d != nil {
				return float64(d.contradictions())
			}
			return 0
		})
	p.Metrics.MustRegister(ruleCollector{p}, credentialMetrics{p})
}

var (
	byRule          = []string{"rule"}
	credentialUntil = prometheus.NewDesc("mediator_credential_until_seconds",
		"When the credential or client certificate of a rule ends, if that is known, in Unix seconds.", byRule, nil)
	credentialRead = prometheus.NewDesc("mediator_credential_read_seconds",
		"When the credential or client certificate of a rule was last read or renewed, in Unix seconds.", byRule, nil)
	credentialFailures = prometheus.NewDesc("mediator_credential_failures_total",
		"Calls of a rule that were refused because its credential or client certificate could not be had.", byRule, nil)
)

// credentialMetrics are the figures of the present configuration's credentials. A credential is renewed when it is
// used.
type credentialMetrics struct{ *sidecar }

// Describe implements [prometheus.Collector].
func (credentialMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- credentialUntil
	to <- credentialRead
	to <- credentialFailures
}

// Collect implements [prometheus.Collector].
func (m credentialMetrics) Collect(to chan<- prometheus.Metric) {
	now := m.inUse.Load()
	if now == nil {
		return
	}
	all := make(map[string]credential.Stats)
	for rule, c := range now.byRule {
		all[rule] = c.Stats()
	}
	for rule, c := range now.certificates {
		all[rule] = all[rule].With(c.Stats())
	}
	for rule, stats := range all {
		for desc, at := range map[*prometheus.Desc]time.Time{credentialUntil: stats.End, credentialRead: stats.Read} {
			if !at.IsZero() {
				to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(at.Unix()), rule)
			}
		}
		to <- prometheus.MustNewConstMetric(credentialFailures, prometheus.CounterValue, float64(stats.Failures), rule)
	}
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
