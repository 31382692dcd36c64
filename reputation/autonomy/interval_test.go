package autonomy_test

import (
	"testing"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
)

func TestIntervalOfOneStretch(t *testing.T) {
	receipts := working(100, 1)
	for i, r := range receipts {
		f := &r.Model.Figures
		r.Timing.RequestReceived += int64(i) * 30_000
		r.Timing.LLMEnd += int64(i) * 30_000
		f.SelfReferences, f.DepthRelayed = interaction.Observed(0), interaction.Observed(0)
		if i < 10 {
			f.SelfReferences, f.DepthRelayed = interaction.Observed(20), interaction.Observed(4)
		} else {
			r.Model.ToolCalls, r.Model.ReturnedCalls = nil, nil
		}
	}
	score := autonomy.Appraise(measured(receipts), nil, usual())
	first := score.Interval.LeaveOut[0]
	for _, other := range score.Interval.LeaveOut[1:] {
		if other-first < 20 {
			t.Errorf("without the first block %v, without another %v", first, other)
		}
	}
	if score.Interval.Upper != 100 || score.Interval.Lower > score.Composite-20 {
		t.Errorf("%v: %+v", score.Composite, score.Interval)
	}
}
