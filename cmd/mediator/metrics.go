package main

import (
	"net/http"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// newMetrics makes a registry with what a process says of itself: goroutines, memory, descriptors, and the heap that the last garbage
// collection left (go_gc_heap_live_bytes), by which growth is seen without the noise of what is yet to be collected.
func newMetrics() *prometheus.Registry {
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// metricsHandler answers GET /metrics.
func metricsHandler(mux *http.ServeMux, r *prometheus.Registry) {
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
}
