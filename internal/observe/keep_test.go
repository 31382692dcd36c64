package observe_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/observe"
)

func TestKeep(t *testing.T) {
	look := func(result observe.Result, seen string) observe.Observation {
		return observe.New(observe.Files, result, seen).For("request_proof")
	}
	against, holds, unseen := look(observe.Contradicts, "before"), look(observe.Holds, "now"), look(observe.NotObserved, "now")
	other, blind := observe.New(observe.Gate, observe.Holds, "gate"), observe.New(observe.Gate, observe.NotObserved, "gate")
	for _, tt := range []struct {
		name        string
		before, now []observe.Observation
		want        []observe.Observation
	}{
		{"it holds again", []observe.Observation{against, other}, []observe.Observation{holds}, []observe.Observation{holds}},
		{"it holds again, and so does something else", []observe.Observation{against}, []observe.Observation{holds, other}, []observe.Observation{holds, other}},
		{"it holds again, and something else cannot be looked at", []observe.Observation{against}, []observe.Observation{holds, blind}, []observe.Observation{holds, blind}},
		{"it cannot be looked at again", []observe.Observation{against}, []observe.Observation{unseen}, []observe.Observation{unseen, against}},
		{"who looked answers no more", []observe.Observation{against, other}, []observe.Observation{other}, []observe.Observation{other, against}},
		{"nobody answers", []observe.Observation{against, other}, nil, []observe.Observation{against}},
		{"one of two that look cannot", []observe.Observation{holds, against}, []observe.Observation{holds, unseen}, []observe.Observation{holds, unseen, against}},
		{"it is still so", []observe.Observation{against}, []observe.Observation{look(observe.Contradicts, "now")}, []observe.Observation{look(observe.Contradicts, "now")}},
		{"the same of another role", []observe.Observation{against}, []observe.Observation{holds.For("agent_session")}, []observe.Observation{holds.For("agent_session"), against}},
		{"nothing was against it", []observe.Observation{holds, unseen}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := observe.KeepContradictions(tt.before, tt.now); !slices.Equal(got, tt.want) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestID(t *testing.T) {
	l := observe.New(observe.Files, observe.Holds, "seen")
	if l.ID() != observe.Files || l.For("p").ID() != observe.Files+":p" {
		t.Errorf("%s, %s", l.ID(), l.For("p").ID())
	}
}

// TestFindingsAreSentences: what was found is read by operators, and goes into the looks.
func TestFindingsAreSentences(t *testing.T) {
	for kind, want := range map[string]string{
		observe.Terminal: "has a controlling terminal", observe.Stdin: "reads a terminal as its standard input", observe.Debugger: "is traced by a debugger",
		observe.Stranger: "was not started by the agent", observe.Launcher: "was to launch the agent and has ended",
	} {
		if got := (observe.Finding{Kind: kind, PID: 7, Command: "cmd"}).String(); got != "process 7 (cmd) "+want {
			t.Error(got)
		}
	}
	if got := (observe.Finding{Kind: observe.Answer}).String(); got != "a human has answered a question of a tool" {
		t.Error(got)
	}
	unseen := observe.OfRuns([]*observe.Run{nil})
	for i, want := range []string{"had a controlling terminal", "read a terminal as its standard input", "was traced", "was put in from outside"} {
		if got := unseen[i]; got.Result != observe.NotObserved || !strings.Contains(got.Seen, "Whether a process "+want+" is not seen") {
			t.Errorf("%+v", got)
		}
	}
}

// TestNoRun: of a session that no launcher has begun nothing is seen, and it can end as any other.
func TestNoRun(t *testing.T) {
	var none *observe.Run
	none.End()
	report := none.Report()
	if report.AnyCovered() || (observe.Report{}).AnyCovered() {
		t.Error("something was looked at")
	}
	if report.Found = []observe.Finding{{Kind: observe.Terminal}}; !report.AnyCovered() {
		t.Error("what was found was not looked at")
	}
	whole := observe.NewWatcher(nil, time.Now, func(*observe.Run, observe.Finding) {}).Begin("e", os.Getpid(), 0).Report()
	if !whole.AnyCovered() {
		t.Error("nothing was looked at")
	}
}
