package admin

import (
	"context"
	"io"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/actionproof/mediator/internal/wire"
)

// Metrics are the gauges of a process by their names.
type Metrics map[string][]Gauge

// Gauge is one value of a metric.
type Gauge struct {
	Labels map[string]string
	Value  float64
}

// ReadMetrics asks the process at an endpoint for its gauges.
func ReadMetrics(ctx context.Context, at string) (Metrics, error) {
	resp, done, err := send(ctx, at, http.MethodGet, "/metrics", nil, nil)
	if err != nil {
		return nil, err
	}
	defer done()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(resp.Body, wire.MaxAnswer))
	if err != nil {
		return nil, err
	}
	m := make(Metrics)
	for name, family := range families {
		for _, one := range family.Metric {
			if one.Gauge == nil {
				continue
			}
			labels := make(map[string]string)
			for _, l := range one.Label {
				labels[l.GetName()] = l.GetValue()
			}
			m[name] = append(m[name], Gauge{labels, one.Gauge.GetValue()})
		}
	}
	return m, nil
}
