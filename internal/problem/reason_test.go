package problem_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
)

type statusLine struct {
	*httptest.ResponseRecorder
	reason string
}

func (s *statusLine) SetReason(text string) { s.reason = text }

func TestReason(t *testing.T) {
	for _, tt := range []struct {
		err    error
		reason string
	}{
		{refusal.New("egress_denied", "no rule allows any call to a.example"),
			"egress_denied: no rule allows any call to a.example"},
		{refusal.New("upstream_unresolvable", "the name %s could not be resolved",
			"a.example").ForOperator("by 10.0.0.1"),
			"upstream_unresolvable: the name a.example could not be resolved"},
		{refusal.New("target_mismatch", "it names \"x\\\"\r\nSet-Cookie: a=b\u2028é"),
			`target_mismatch: it names "x\"??Set-Cookie: a=b??`},
		{refusal.New("process_unavailable", "10.0.0.1 does not answer"),
			"process_unavailable: Another process of the mediator does not answer; the operator can see why: " +
				"mediator posts show post_1"},
		{errors.New("a secret"), "internal: the call could not be handled; nothing was sent"},
		{refusal.New("egress_denied", "%s", strings.Repeat("a", 10_000)),
			"egress_denied: " + strings.Repeat("a", 300-len("egress_denied: ...")) + "..."},
	} {
		w := &statusLine{ResponseRecorder: httptest.NewRecorder()}
		problem.ForAgent(tt.err, "post_1").AnswerByProxy(w, httptest.NewRequest("CONNECT", "a.example:443", nil))
		if w.reason != tt.reason {
			t.Errorf("the reason is %q, want %q", w.reason, tt.reason)
		}
	}
}
