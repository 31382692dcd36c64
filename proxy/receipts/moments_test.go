package receipts_test

import (
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/receipts"
)

func TestMoments(t *testing.T) {
	r := newRig(t)
	began := time.UnixMilli(time.Now().UnixMilli() - 9000)
	after := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	chain := r.chain("ses_1")
	answered := inference.Interaction{Outcome: inference.OutcomeComplete, Status: 200, Sent: after(30),
		Head: after(500),
		End:  after(1700)}
	left, refused := answered, inference.Interaction{Sent: after(40)}
	left.Outcome = inference.OutcomeCut
	for _, tt := range []struct {
		state  ledger.State
		in     inference.Interaction
		handed time.Time
		want   [3]int // start, end, and answer to the agent; 0 if unseen
	}{
		{ledger.StateForwarded, answered, after(1705), [3]int{30, 1700, 1705}},
		{ledger.StateForwarded, left, time.Time{}, [3]int{30, 1700, 0}},
		{ledger.StateIndeterminate, refused, time.Time{}, [3]int{40, 0, 0}},
		{ledger.StateFailed, inference.Interaction{}, after(60), [3]int{0, 0, 60}},
	} {
		rec := r.record("egress")
		rec.Started = began
		c := r.model(chain, receipts.ModelRequest{Record: rec})
		must(t, c.Send(t.Context()))
		c.EndModel(tt.state, tt.in, tt.handed)
		n := int(r.settled(chain).Number)
		moment := func(ms int) int64 {
			if ms == 0 {
				return 0
			}
			return after(ms).UnixMilli()
		}
		want := interaction.Timing{RequestReceived: began.UnixMilli(), LLMStart: moment(tt.want[0]),
			LLMEnd: moment(tt.want[1]), ResponseSent: moment(tt.want[2])}
		if got := r.read("ses_1", n)[n-1]; got.Timing != want {
			t.Errorf("%s: %+v, want %+v", got.Outcome, got.Timing, want)
		}
	}
}
