package observe_test

import (
	"slices"
	"testing"

	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/look"
)

func TestKeep(t *testing.T) {
	saw := func(result look.Result, seen string) look.Observation {
		return look.New(look.Files, result, seen).For("request_proof")
	}
	against, holds, unseen := saw(look.Contradicts, "before"), saw(look.Holds, "now"), saw(look.NotObserved, "now")
	other, blind := look.New(look.Gate, look.Holds, "gate"), look.New(look.Gate, look.NotObserved, "gate")
	for _, tt := range []struct {
		name        string
		before, now []look.Observation
		want        []look.Observation
	}{
		{"it holds again", []look.Observation{against, other}, []look.Observation{holds}, []look.Observation{holds}},
		{"it holds again, and so does something else", []look.Observation{against}, []look.Observation{holds, other},
			[]look.Observation{holds, other}},
		{"it holds again, and something else cannot be looked at", []look.Observation{against},
			[]look.Observation{holds, blind}, []look.Observation{holds, blind}},
		{"it cannot be looked at again", []look.Observation{against}, []look.Observation{unseen},
			[]look.Observation{unseen, against}},
		{"who looked answers no more", []look.Observation{against, other}, []look.Observation{other},
			[]look.Observation{other, against}},
		{"nobody answers", []look.Observation{against, other}, nil, []look.Observation{against}},
		{"one of two that look cannot", []look.Observation{holds, against}, []look.Observation{holds, unseen},
			[]look.Observation{holds, unseen, against}},
		{"it is still so", []look.Observation{against}, []look.Observation{saw(look.Contradicts, "now")},
			[]look.Observation{saw(look.Contradicts, "now")}},
		{"the same of another role", []look.Observation{against}, []look.Observation{holds.For("agent_session")},
			[]look.Observation{holds.For("agent_session"), against}},
		{"nothing was against it", []look.Observation{holds, unseen}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := observe.KeepContradictions(tt.before, tt.now); !slices.Equal(got, tt.want) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestNoRun(t *testing.T) {
	var none *observe.Run
	none.End()
	report := none.Report()
	if report.AnyCovered() || (look.Report{}).AnyCovered() {
		t.Error("something was looked at")
	}
	if report.Found = []look.Finding{{Kind: look.Terminal}}; !report.AnyCovered() {
		t.Error("what was found was not looked at")
	}
	whole := look.NewReport(nil, map[string]string{look.Terminal: "nobody looked"})
	if !whole.AnyCovered() {
		t.Error("nothing was looked at")
	}
}
