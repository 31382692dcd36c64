package problem_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
)

func TestProxyStatus(t *testing.T) {
	for _, tt := range []struct {
		err            error
		reason, status string
	}{
		{refusal.New("egress_denied", "no rule allows any call to a.example"),
			"egress_denied: no rule allows any call to a.example",
			`mediator; error=http_request_denied; details="egress_denied: no rule allows any call to a.example"`},
		{refusal.New("upstream_unresolvable", "the name %s could not be resolved", "a.example").ForOperator("by 10.0.0.1"),
			"upstream_unresolvable: the name a.example could not be resolved",
			`mediator; error=dns_error; details="upstream_unresolvable: the name a.example could not be resolved"`},
		{refusal.New("target_mismatch", "it names \"x\\\"\r\nSet-Cookie: a=b\u2028é"),
			`target_mismatch: it names "x\"??Set-Cookie: a=b??`,
			`mediator; error=http_request_denied; details="target_mismatch: it names \"x\\\"??Set-Cookie: a=b??"`},
		{refusal.New("process_unavailable", "10.0.0.1 does not answer"),
			"process_unavailable: Another process of the mediator does not answer; the operator can see why: mediator posts " +
				"show post_1",
			`mediator; error=proxy_internal_error; details="process_unavailable: Another process of the mediator ` +
				`does not answer; the operator can see why: mediator posts show post_1"`},
		{errors.New("a secret"), "internal: the call could not be handled; nothing was sent",
			`mediator; error=proxy_internal_error; details="internal: the call could not be handled; nothing was sent"`},
	} {
		d := problem.ForAgent(tt.err, "post_1")
		if got := d.Reason(); got != tt.reason {
			t.Errorf("the reason is %q, want %q", got, tt.reason)
		}
		if got := d.ProxyStatus(); got != tt.status {
			t.Errorf("Proxy-Status: %s, want %s", got, tt.status)
		}
	}
	if long := problem.ForAgent(refusal.New("egress_denied", "%s", strings.Repeat("a", 10_000)), "").Reason(); len(long) !=
		300 || !strings.HasSuffix(long, "a...") {
		t.Errorf("%d bytes: %q", len(long), long)
	}
}
