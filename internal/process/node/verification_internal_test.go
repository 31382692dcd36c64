package node

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/reputation/verification/tools"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

func TestCallers(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	owner := n.Kit.Owner(t)
	body := []byte(`{"jsonrpc":"2.0"}`)
	token := func(body []byte) string { return n.CallerToken(t, "ses_1", api.MCPPath, body, nil) }
	agent := verification.Caller{Subject: owner + ":agent:worker-1", Session: "ses_1"}
	large := bytes.Repeat([]byte("x"), tools.MaxBody+1)
	for _, tt := range []struct {
		name, from string
		tokens     []string
		body       []byte
		public     verification.Caller
		code       string // at the public address; empty for a caller
		internal   string // the code at the internal address
	}{
		{"an IPv4 address", "192.0.2.1:7", nil, body, verification.Caller{Subject: "192.0.2.1/32"}, "", "caller_invalid"},
		{"an IPv6 address", "[2001:db8::1]:7", nil, body, verification.Caller{Subject: "2001:db8::/64"}, "",
			"caller_invalid"},
		{"a socket", "@", nil, body, verification.Caller{}, "caller_invalid", "caller_invalid"},
		{"two tokens", "192.0.2.1:7", []string{token(body), token(body)}, body, verification.Caller{}, "query_malformed",
			"query_malformed"},
		{"another body", "192.0.2.1:7", []string{token(nil)}, body, verification.Caller{}, "caller_invalid",
			"caller_invalid"},
		{"a large body", "192.0.2.1:7", []string{token(large)}, large, verification.Caller{}, "content_too_large",
			"content_too_large"},
		{"a token", "192.0.2.1:7", []string{token(body)}, body, agent, "", "caller_invalid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ask := func(caller func(*http.Request) (verification.Caller, error)) (verification.Caller, string) {
				r := httptest.NewRequest(http.MethodPost, "http://node"+api.MCPPath, bytes.NewReader(tt.body))
				r.RemoteAddr = tt.from
				r.Header[http.CanonicalHeaderKey(interaction.CallerHeader)] = tt.tokens
				by, err := caller(r)
				if err != nil {
					return by, problem.DetailsOf(err).Code
				}
				if rest, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(rest, tt.body) {
					t.Errorf("of the body is left %s, %v", rest, err)
				}
				return by, ""
			}
			if by, code := ask(namedOrFrom(n.Service)); by != tt.public || code != tt.code {
				t.Errorf("the public address has %+v, %q", by, code)
			}
			if by, code := ask(named(n.Service)); by != (verification.Caller{}) || code != tt.internal {
				t.Errorf("the internal address has %+v, %q", by, code)
			}
		})
	}
	if strings.Contains(owner, ":") {
		t.Error("the name of an owner could end elsewhere")
	}
}
