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
	look := func(result observe.Result, seen string) observe.Look {
		return observe.Made(observe.Files, result, seen).For("request_proof")
	}
	against, holds, unseen := look(observe.Contradicts, "before"), look(observe.Holds, "now"), look(observe.Unseen, "now")
	other, blind := observe.Made(observe.Gate, observe.Holds, "gate"), observe.Made(observe.Gate, observe.Unseen, "gate")
	for _, tt := range []struct {
		name        string
		before, now []observe.Look
		want        []observe.Look
	}{
		{"it holds again", []observe.Look{against, other}, []observe.Look{holds}, []observe.Look{holds}},
		{"it holds again, and so does something else", []observe.Look{against}, []observe.Look{holds, other}, []observe.Look{holds, other}},
		{"it holds again, and something else cannot be looked at", []observe.Look{against}, []observe.Look{holds, blind}, []observe.Look{holds, blind}},
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

func TestID(t *testing.T) {
	l := observe.Made(observe.Files, observe.Holds, "seen")
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
	unseen := observe.Looks([]*observe.Run{nil})
	for i, want := range []string{"had a controlling terminal", "read a terminal as its standard input", "was traced", "was put in from outside"} {
		if got := unseen[i]; got.Result != observe.Unseen || !strings.Contains(got.Seen, "Whether a process "+want+" is not seen") {
			t.Errorf("%+v", got)
		}
	}
}

// TestNoRun: of a session that no launcher has begun nothing is seen, and it can end as any other.
func TestNoRun(t *testing.T) {
	var none *observe.Run
	none.End()
	report := none.Report()
	if report.Any() || (observe.Report{}).Any() {
		t.Error("something was looked at")
	}
	if report.Found = []observe.Finding{{Kind: observe.Terminal}}; !report.Any() {
		t.Error("what was found was not looked at")
	}
	whole := observe.NewWatch(nil, time.Now, func(*observe.Run, observe.Finding) {}).Begin("e", os.Getpid(), 0).Report()
	if !whole.Any() {
		t.Error("nothing was looked at")
	}
}
