package reputationd

import "github.com/prometheus/client_golang/prometheus"

var ownerRefused = prometheus.NewDesc("mediator_owner_bundle_refused", "1 if the trust bundle of an owner has changed and is not taken over; else 0.", []string{"owner"}, nil)

// Describe implements [prometheus.Collector].
func (o *owners) Describe(ch chan<- *prometheus.Desc) { ch <- ownerRefused }

// Collect implements [prometheus.Collector].
func (o *owners) Collect(ch chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, is := range o.inForce {
		refused := 0.0
		if is.refused {
			refused = 1
		}
		ch <- prometheus.MustNewConstMetric(ownerRefused, prometheus.GaugeValue, refused, is.Name)
	}
}
