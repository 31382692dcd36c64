package node

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

func TestCallers(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	owner := n.Kit.Owner(t)
	body := []byte(`{"jsonrpc":"2.0"}`)
	token := func(body []byte) string { return n.CallerToken(t, "ses_1", api.MCPPath, body, nil) }
	agent := verification.Caller{Subject: owner + ":agent:worker-1", Session: "ses_1"}
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
		{"a token", "192.0.2.1:7", []string{token(body)}, body, agent, "", "caller_invalid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ask := func(caller callerOf) (verification.Caller, string) {
				r := httptest.NewRequest(http.MethodPost, "http://node"+api.MCPPath, nil)
				r.RemoteAddr = tt.from
				r.Header[http.CanonicalHeaderKey(interaction.CallerHeader)] = tt.tokens
				by, err := caller(r, tt.body)
				if err != nil {
					return by, problem.DetailsOf(err).Code
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

// TestToolsAreDescribed compares the tools' arguments with those in the node's OpenAPI document.
func TestToolsAreDescribed(t *testing.T) {
	store, err := verification.Open(t.Context(), t.TempDir()+"/v.db", "", time.Now)
	check.Must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	service, err := verification.New(store, noSigner{}, verification.Options{})
	check.Must(t, err)
	h, err := (&verifier{service: service}).handler("1", func(*http.Request, []byte) (verification.Caller, error) {
		return verification.Caller{Subject: "x", Session: "s"}, nil
	})
	check.Must(t, err)
	r := httptest.NewRequest(http.MethodPost, "http://node"+api.MCPPath,
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var listed struct {
		Result struct {
			Tools []struct {
				Name        string
				InputSchema any
			}
		}
	}
	check.Must(t, json.Unmarshal(w.Body.Bytes(), &listed))
	var described struct {
		Components struct{ Schemas map[string]any }
	}
	check.Must(t, json.Unmarshal(api.Description(), &described))
	var call struct {
		Properties struct {
			Params struct {
				OneOf []struct {
					Properties struct {
						Name      struct{ Const string }
						Arguments struct {
							Ref string `json:"$ref"`
						}
					}
				}
			}
		}
	}
	raw, err := json.Marshal(described.Components.Schemas["ToolCall"])
	check.Must(t, errors.Join(err, json.Unmarshal(raw, &call)))
	schemas := make(map[string]any)
	for _, one := range call.Properties.Params.OneOf {
		schemas[one.Properties.Name.Const] = described.Components.Schemas[path.Base(one.Properties.Arguments.Ref)]
	}
	if len(listed.Result.Tools) != 6 || len(schemas) != 6 {
		t.Errorf("%d tools, of which %d are described", len(listed.Result.Tools), len(schemas))
	}
	for _, tool := range listed.Result.Tools {
		if !reflect.DeepEqual(tool.InputSchema, schemas[tool.Name]) {
			t.Errorf("%s takes %v, and is described as %v", tool.Name, tool.InputSchema, schemas[tool.Name])
		}
	}
}

type noSigner struct{}

func (noSigner) Sign(context.Context, verification.Result) (string, verification.Result, error) {
	return "", verification.Result{}, errors.New("none is signed here")
}
