package kit

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

// inside matches names of the deployment that no refusal may tell an agent: keys, and what Vault, the operating system and the databases
// say of them.
var inside = regexp.MustCompile(`(?i):v\d|vault\b|transit|approle|kv/|auth/|secret.id|\.(token|sock|db|json|jwk|pem)\b|/run/|/tmp/|\b\d+\.\d+\.\d+\.\d+\b|unix|\bsql|insert|database|x509|\bdial\b|errno|no such file|connection refused|permission`)

// WantNothingTold looks for names of the deployment in what an agent got.
func WantNothingTold(t *testing.T, answer string) {
	t.Helper()
	if found := inside.FindString(answer); found != "" {
		t.Errorf("the agent is told of %q: %s", found, answer)
	}
	for _, r := range bootstrap.Roles {
		if strings.Contains(answer, r.Key) {
			t.Errorf("the agent is told of the key %s: %s", r.Key, answer)
		}
	}
}

// Outcome is what an agent saw of one call.
type Outcome struct {
	Status int
	Code   string // of the refusal; empty where there was none
	step   string
	Detail string
	Post   string // the id of the record
	Retry  int    // Retry-After in seconds
	Took   time.Duration
}

// Agent is a client in a session of its own.
type Agent struct {
	*http.Client
	t           *testing.T
	Base, admin string
}

func (v *Rig) OpenAgent(t *testing.T) Agent {
	t.Helper()
	event, err := v.DeliverRelease(t.Context())
	check.Must(t, err)
	var s admin.Session
	check.Must(t, admin.Call(t.Context(), v.Stack.Admin(), http.MethodPost, "/v1/sessions", map[string]string{"event": event}, &s))
	proxy, err := url.Parse(s.ProxyURL)
	check.Must(t, err)
	ca, err := os.ReadFile(s.CAFile)
	check.Must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return Agent{&http.Client{Transport: transport, Timeout: Patience}, t, "https://" + v.Plain(), v.Stack.Admin()}
}

func (a Agent) Post() Outcome {
	return a.Call(http.MethodPost, "/repos/acme/site/issues/7/comments", `{"body":"released"}`)
}

func (a Agent) Read() Outcome { return a.Call(http.MethodGet, "/repos/acme/site", "") }

// Call makes one call. What is no answer at all has the code "none".
func (a Agent) Call(method, path, body string) Outcome {
	began := time.Now()
	out := Outcome{Code: "none"}
	req, err := http.NewRequest(method, a.Base+path, strings.NewReader(body))
	if err != nil {
		return out
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.Do(req)
	if err != nil {
		out.Detail = err.Error()
		return out
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	out.Took = time.Since(began)
	if err != nil || resp.StatusCode < 300 {
		out.Status, out.Code, out.Post = resp.StatusCode, "", resp.Header.Get("ActionProof-Post")
		return out
	}
	var p problem.Details
	if json.Unmarshal(raw, &p) == nil {
		out.Code, out.step, out.Detail, out.Post = p.Code, p.Step, p.Detail, p.Post
	}
	WantNothingTold(a.t, string(raw))
	out.Status = resp.StatusCode
	out.Retry, _ = strconv.Atoi(resp.Header.Get("Retry-After"))
	return out
}

// Reason returns why a call was refused: what the operator reads of it.
func (a Agent) Reason(o Outcome) string {
	if o.Post == "" {
		return ""
	}
	var rec ledger.Record
	if err := admin.Get(a.t.Context(), a.admin, "/v1/posts/"+o.Post, &rec); err != nil {
		return err.Error()
	}
	return rec.Reason
}
