package node

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/actionproof/mediator/reputation/api"
)

var ownerRefused = prometheus.NewDesc("mediator_owner_bundle_refused",
	"1 if the trust bundle of an owner has changed and is not taken over; else 0.", []string{"owner"}, nil)

func (o *owners) Describe(ch chan<- *prometheus.Desc) { ch <- ownerRefused }

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

type requests struct {
	answered *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newRequests(r prometheus.Registerer) *requests {
	with := promauto.With(r)
	m := &requests{
		answered: with.NewCounterVec(
			prometheus.CounterOpts{Name: "mediator_node_requests_total", Help: "Requests to the node by endpoint and status."},
			[]string{"endpoint", "status"}),
		seconds: with.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mediator_node_request_seconds", Help: "How long the node took to answer, by endpoint.",
			Buckets: prometheus.ExponentialBuckets(.001, 4, 8),
		}, []string{"endpoint"}),
	}
	for _, endpoint := range append(slices.Clone(endpoints), others) {
		m.answered.WithLabelValues(endpoint, "200")
		m.seconds.WithLabelValues(endpoint)
	}
	return m
}

// endpoints are the first parts of the API's paths, and mcp. Strangers choose others, which share one label.
var endpoints = []string{
	"receipts", "challenge", "score", "sessions", "reputation", "baselines", "signals",
	"dispute", "disputes", "schemas", mcp,
}

const mcp = "mcp"

const others = "other"

func (m *requests) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, answer := time.Now(), &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, r)
		rest, _ := strings.CutPrefix(r.URL.Path, "/v1/")
		endpoint, _, _ := strings.Cut(rest, "/")
		switch {
		case r.URL.Path == api.MCPPath:
			endpoint = mcp
		case endpoint == mcp || !slices.Contains(endpoints, endpoint):
			endpoint = others
		}
		m.answered.WithLabelValues(endpoint, strconv.Itoa(answer.status)).Inc()
		m.seconds.WithLabelValues(endpoint).Observe(time.Since(began).Seconds())
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
