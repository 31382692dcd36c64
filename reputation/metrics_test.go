package reputation_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

func TestMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	n := nodetest.New(t, gatetest.New(t), nil, func(o *reputation.Options) { o.Metrics = r })
	s := n.Calls(t, "ses_1", 5)
	n.Delivered(t, 3, s.Receipts[:2]...)
	n.Delivered(t, 5, s.Receipts[:4]...)
	wantCode(t, n.Deliver(t, n.Calls(t, "ses_2", 2).Receipts[1]).Err, "chain_incomplete")
	n.Scored(t, "ses_1")
	s.Close(t)
	n.Delivered(t, 7, s.Receipts...)
	must(t, n.Enter(t.Context()))
	for range 2 {
		_, err := n.Reputation(t.Context(), n.Kit.Agent(t).String())
		must(t, err)
	}
	_, err := n.Publish(t.Context(), n.Says(t, n.SignalOf(n.Kit.Agent(t).String(), "s-1")))
	must(t, err)
	_, err = n.File(t.Context(), n.Says(t, n.Contract(n.Kit.Agent(t).String(), "c-1", "s-1")))
	wantCode(t, err, "dispute_refused")
	upToDate := n.Kit.Clock.Now()
	_, err = n.Reputation(t.Context(), "nobody")
	wantCode(t, err, "query_malformed")
	must(t, n.Store.Close())
	_, err = n.Reputation(t.Context(), n.Kit.Agent(t).String())
	wantCode(t, err, "ledger_unavailable")
	n.Kit.Clock.Advance(time.Hour)
	if n.Enter(t.Context()) == nil {
		t.Error("sessions are entered in a store that is closed")
	}
	families, err := r.Gather()
	must(t, err)
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "mediator_node_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	if got["disputes_turns_seconds_total"] <= 0 {
		t.Error("the turns took no time")
	}
	delete(got, "disputes_turns_seconds_total")
	want := map[string]float64{
		"cached_receipts": 7, "disputes_total published": 1,
		"statements_refused_total dispute_refused": 1, "logs_up_to_date_seconds": float64(upToDate.Unix()),
		"reputations_total same": 1, "reputations_total signed": 1, "reputations_total refused": 1,
		"reputations_total failed": 1,
		"receipts_total kept":      6, "receipts_total known": 6, "refused_total chain_incomplete": 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLargeReceiptsWeighMore(t *testing.T) {
	r := prometheus.NewRegistry()
	n := nodetest.New(t, gatetest.New(t), nil, func(o *reputation.Options) { o.Metrics = r })
	const receipts = 20
	s := n.Kit.Session(t, "ses_1")
	for i := range receipts {
		s.Call(t, func(c *interaction.Receipt) {
			c.Model.ToolCalls, c.Model.ReturnedCalls = nil, nil
			for j := range interaction.MaxToolCalls {
				c.Model.ToolCalls = append(c.Model.ToolCalls,
					interaction.ToolCall{ID: gatetest.Tag("call", 100*i+j), Tool: "search",
						Arguments: gatetest.Tag("arguments", 100*i+j)})
				if i > 0 {
					c.Model.ReturnedCalls = append(c.Model.ReturnedCalls, gatetest.Tag("call", 100*(i-1)+j))
				}
			}
			c.Model.Figures.ToolCallsMade = interaction.Observed(interaction.MaxToolCalls)
		})
	}
	n.Delivered(t, receipts+1, s.Receipts...)
	n.Scored(t, "ses_1")
	families, err := r.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == "mediator_node_cached_receipts" && f.GetMetric()[0].GetGauge().GetValue() < 8*receipts {
			t.Errorf("%v", f)
		}
	}
}
