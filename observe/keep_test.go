package observe_test

import (
	"slices"
	"testing"

	"github.com/actionproof/mediator/observe"
)

func TestKeep(t *testing.T) {
	look := func(result observe.Result, seen string) observe.Look {
		return observe.Made(observe.Files, result, seen).For("request_proof")
	}
	against, holds, unseen := look(observe.Contradicts, "before"), look(observe.Holds, "now"), look(observe.Unseen, "now")
	other := observe.Made(observe.Gate, observe.Holds, "gate")
	for _, tt := range []struct {
		name        string
		before, now []observe.Look
		want        []observe.Look
	}{
		{"it holds again", []observe.Look{against, other}, []observe.Look{holds}, []observe.Look{holds}},
		{"it cannot be looked at again", []observe.Look{against}, []observe.Look{unseen}, []observe.Look{unseen, against}},
		{"who looked answers no more", []observe.Look{against, other}, []observe.Look{other}, []observe.Look{other, against}},
		{"nobody answers", []observe.Look{against, other}, nil, []observe.Look{against}},
		{"one of two that look cannot", []observe.Look{holds, against}, []observe.Look{holds, unseen}, []observe.Look{holds, unseen, against}},
		{"it is still so", []observe.Look{against}, []observe.Look{look(observe.Contradicts, "now")}, []observe.Look{look(observe.Contradicts, "now")}},
		{"the same of another role", []observe.Look{against}, []observe.Look{holds.For("agent_session")}, []observe.Look{holds.For("agent_session"), against}},
		{"nothing was against it", []observe.Look{holds, unseen}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := observe.Keep(tt.before, tt.now); !slices.Equal(got, tt.want) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
