package verification_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/test/check"
)

type gates struct{ orchestrate, govern, enforce verification.Answer }

func (g gates) ask(_ context.Context, gate string, _ verification.Question) verification.Answer {
	return map[string]verification.Answer{verification.GateOrchestrate: g.orchestrate, verification.GateGovern: g.govern,
		verification.GateEnforce: g.enforce}[gate]
}

func asLater(err error, later *interface{ RetryAfter() int }) bool { return errors.As(err, later) }

func TestGates(t *testing.T) {
	away := verification.Answer{Status: verification.GateUnavailable, Reason: "timeout"}
	passed := verification.Answer{Status: verification.GatePassed, Resonance: 100, Score: 100}
	enforced := func(score int64) verification.Answer {
		return verification.Answer{Status: verification.GatePassed, Score: score}
	}
	for _, tt := range []struct {
		name             string
		gates            gates
		offTopic         bool
		want             string
		violations       []string
		degraded, warned bool
	}{
		{"none is configured", gates{}, false, "not_configured 0, not_configured 0, not_configured 100", nil, false, false},
		{"all are away", gates{away, away, away}, false, "unavailable 0, unavailable 0, unavailable 100", nil, true, false},
		{"all have passed", gates{passed, passed, passed}, false, "passed 100, passed 100, passed 100", nil, false, false},
		{"orchestrate is away", gates{away, passed, passed}, false, "unavailable 0, passed 100, passed 100", nil, true,
			false},
		{"orchestrate has failed", gates{verification.Answer{Status: verification.GateFailed}, passed, passed}, false,
			"failed 0, passed 100, passed 100", []string{verification.ViolationOrchestration}, false, false},
		{"govern refuses", gates{passed, verification.Answer{Status: verification.GateFailed}, passed}, false,
			"passed 100, failed 0, passed 100",
			[]string{verification.ViolationGovernance}, false, false},
		{"enforce 74", gates{passed, passed, enforced(74)}, false, "passed 100, passed 100, failed 74",
			[]string{verification.ViolationReasoningRefused}, false, true},
		{"enforce 75", gates{passed, passed, enforced(75)}, false, "passed 100, passed 100, passed 75", nil, false, true},
		{"enforce 99", gates{passed, passed, enforced(99)}, false, "passed 100, passed 100, passed 99", nil, false, true},
		{"enforce is away, and keywords stand in", gates{passed, passed, away}, true,
			"passed 100, passed 100, unavailable 100",
			[]string{verification.ViolationReasoningOff}, true, false},
		{"enforce has passed, and keywords do not count", gates{passed, passed, passed}, true,
			"passed 100, passed 100, passed 100", nil, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, verification.Options{Gates: tt.gates.ask})
			a := r.agent()
			a.t = t
			if tt.offTopic {
				a.mute()
			} else {
				a.walk(2 * time.Second)
			}
			got, err := a.register()
			check.Must(t, err)
			var said string
			for i, g := range got.Gates {
				said += []string{"", ", "}[min(i, 1)] + fmt.Sprint(g.Status, " ", g.Score)
			}
			if said != tt.want || !slices.Equal(got.Verdict.Violations, tt.violations) || got.Degraded != tt.degraded ||
				got.Warned != tt.warned {
				t.Errorf("got %s, %v, degraded %t, warned %t", said, got.Verdict.Violations, got.Degraded, got.Warned)
			}
			if passed := got.Token != ""; passed != (tt.violations == nil) {
				t.Fatalf("passed: %t", passed)
			}
			if got.Token != "" {
				if c := claimsOf(t, got.Token); c.Degraded != tt.degraded || !slices.Equal(c.Gates, got.Gates) ||
					(c.Reasoning.By == verification.ByServer) != (tt.gates.enforce.Status == verification.GatePassed) {
					t.Errorf("claims %+v", c)
				}
			}
		})
	}
}

func claimsOf(t *testing.T, token string) (c verification.Result) {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err == nil {
		err = json.Unmarshal(payload, &c)
	}
	check.Must(t, err)
	return c
}

func (a *agent) mute() {
	a.t.Helper()
	for i := 0; a.session.FollowUp == nil; i++ {
		turn := a.call(tool(i), "x")
		turn.Reasoning = "lorem ipsum dolor sit amet consectetur " + a.canary
		a.mustSubmit(turn)
		a.clock.pass(2 * time.Second)
	}
	turn := a.answer()
	turn.Reasoning = "lorem ipsum dolor sit amet " + turn.ToolCall + " " + a.canary + " " + canaryOf(turn)
	a.mustSubmit(turn)
}

func TestPrivilegedPath(t *testing.T) {
	good := verification.Answer{Status: verification.GatePassed, Resonance: 800}
	for _, tt := range []struct {
		name       string
		govern     verification.Answer
		turns      int // with the follow-up
		violations []string
	}{
		{"three turns", good, 3, nil},
		{"four turns", good, 4, nil},
		{"below", verification.Answer{Status: verification.GatePassed, Resonance: 799}, 4, nil},
		{"away", verification.Answer{Status: verification.GateUnavailable, Resonance: 1000}, 4, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, verification.Options{Gates: gates{govern: tt.govern}.ask})
			a := r.agent()
			a.t = t
			for len(a.turns) < tt.turns-1 {
				a.mustSubmit(a.call(tool(len(a.turns)), "x"))
				r.clock.pass(2 * time.Second)
			}
			a.followUp()
			got, err := a.register()
			if err != nil || !slices.Equal(got.Verdict.Violations, tt.violations) {
				t.Fatal(err, got.Verdict)
			}
		})
	}
	t.Run("promised, and not kept", func(t *testing.T) {
		r := newRig(t, verification.Options{Gates: gates{govern: good}.ask})
		a := r.agent()
		a.walk(4 * time.Second) // two turns and the follow-up
		a.s = r.replica(verification.Options{})
		a.wantViolations(a.registration(), verification.ViolationFollowUpMissing, verification.ViolationTurnsMissing)
	})
}
