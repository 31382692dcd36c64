package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/client"
)

func TestReputation(t *testing.T) {
	for name, tt := range map[string]struct{ answer, token, err string }{
		"a token":       {`{"reputation":{},"token":"a.b.c"}`, "a.b.c", ""},
		"none":          {`{"reputation":{}}`, "", "node_unavailable"},
		"no JSON":       {`<html>`, "", "node_unavailable"},
		"another owner": {"", "", "owner_unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.EscapedPath() != "/v1/reputation/o:agent%2Fa" {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				if tt.answer == "" {
					problem.DetailsOf(refusal.New("owner_unknown", "no")).Write(w)
					return
				}
				_, _ = io.WriteString(w, tt.answer)
			}))
			defer s.Close()
			got, err := client.New(s.URL, s.Client()).Reputation(t.Context(), "o:agent/a")
			if got != tt.token || refusal.CodeOf(err) != tt.err {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestHandOver(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		next   int64
		code   string // of the refusal of the session
		err    string
	}{
		"taken": {`{"sessions":[{"owner":"o","session":"ses_1","next":3}]}`, 3, "", ""},
		"a gap": {
			`{"sessions":[{"owner":"o","session":"ses_1","next":2,"problem":{"code":"chain_incomplete","status":403,` +
				`"detail":"d","extra":1}}]}`, 2, "chain_incomplete", ""},
		"too many": {
			`{"sessions":[{"owner":"o","session":"ses_1","next":2,"problem":{"code":"overloaded","status":503},` +
				`"retry_after":9}]}`, 2, "overloaded", ""},
		"of another session": {`{"sessions":[{"owner":"o","session":"ses_2","next":3}]}`, 0, "", "node_unavailable"},
		"of two sessions": {
			`{"sessions":[{"owner":"o","session":"ses_1","next":3},{"owner":"o","session":"ses_2","next":3}]}`, 0, "",
			"node_unavailable"},
		"of none": {`{"sessions":[]}`, 0, "", "node_unavailable"},
		"a problem that is none": {`{"sessions":[{"owner":"o","session":"ses_1","next":3,"problem":{}}]}`, 0, "",
			"node_unavailable"},
		"no JSON": {`<html>`, 0, "", "node_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.Method != http.MethodPost || r.URL.Path != "/v1/receipts" || string(body) != `{"receipts":["a","b"]}` {
					t.Errorf("%s %s %s", r.Method, r.URL, body)
				}
				_, _ = io.WriteString(w, tt.answer)
			}))
			defer s.Close()
			got, err := client.New(s.URL, s.Client()).HandOver(t.Context(), "ses_1", []string{"a", "b"})
			if refusal.CodeOf(err) != tt.err || got.Next != tt.next {
				t.Fatalf("%+v, %v", got, err)
			}
			if (got.Refused != nil) != (tt.code != "") || got.Refused != nil && got.Refused.Code() != tt.code {
				t.Errorf("refused: %v", got.Refused)
			}
		})
	}
}

func TestRelay(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/v1/challenge/issue":
			if r.Method != http.MethodPost || string(body) != "{ }" || r.Header.Get(interaction.CallerHeader) != "token" ||
				r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s %v %s", r.Method, r.URL, r.Header, body)
			}
			_, _ = io.WriteString(w, `{"challenge_nonce": "n"}`)
		case "/v1/score/a":
			if len(r.Header.Values(interaction.CallerHeader)) > 0 || r.Method != http.MethodGet || len(body) > 0 {
				t.Errorf("%s %s %v %s", r.Method, r.URL, r.Header, body)
			}
			w.Header().Set("Retry-After", "7")
			problem.Details{Status: http.StatusTooManyRequests, Code: "rate_limited", Detail: "too many"}.Write(w)
		case "/v1/score/large":
			_, _ = io.WriteString(w, strings.Repeat("x", 5<<20))
		default:
			http.Error(w, "<html>", http.StatusBadGateway)
		}
	}))
	defer s.Close()
	c := client.New(s.URL, s.Client())
	if got, err := c.Relay(t.Context(), http.MethodPost, "/v1/challenge/issue", []byte("{ }"), "token"); err != nil ||
		string(got) != `{"challenge_nonce": "n"}` {
		t.Errorf("%s, %v", got, err)
	}
	_, err := c.Relay(t.Context(), http.MethodGet, "/v1/score/a", nil, "")
	if d := problem.DetailsOf(err); d.Code != "rate_limited" || d.RetryAfter != 7 {
		t.Errorf("%+v", d)
	}
	for _, path := range []string{"/v1/score/large", "/v1/score/none"} {
		if _, err := c.Relay(t.Context(), http.MethodGet, path, nil, ""); refusal.CodeOf(err) != "node_unavailable" ||
			!errors.As(err, new(*refusal.Refusal)) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
