package kit

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
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

// Outcome is what an agent saw of one call.
type Outcome struct {
	Status int
	Code   string // of the refusal, or "none" if no answer came
	Detail string
	Post   string // the id of the record
	Retry  int    // Retry-After in seconds
	Took   time.Duration

	Challenge json.RawMessage // to solve
}

// Agent is a client in a session of its own.
type Agent struct {
	*http.Client
	Session admin.Session
	Event   string
	Base    string      // of the upstream
	Header  http.Header // of each call, or nil

	t     *testing.T
	admin string
}

// OpenAgent opens a session for a new event.
func (r *Rig) OpenAgent(t *testing.T) Agent {
	t.Helper()
	return r.OpenAgentAt(t, r.Stack.Admin(), func(*admin.Session) {})
}

// OpenAgentAt is OpenAgent for a sidecar at another endpoint. edit changes the session before its first call.
func (r *Rig) OpenAgentAt(t *testing.T, endpoint string, edit func(*admin.Session)) Agent {
	t.Helper()
	a := Agent{Base: "https://" + r.Plain(), Event: r.Event(t), t: t, admin: endpoint}
	request := admin.SessionRequest{Event: a.Event}
	check.Must(t, admin.Call(t.Context(), endpoint, http.MethodPost, "/v1/sessions", request, &a.Session))
	edit(&a.Session)
	transport := ProxyTransport(t, a.Session)
	t.Cleanup(transport.CloseIdleConnections)
	a.Client = &http.Client{Transport: transport, Timeout: Patience}
	return a
}

// ProxyTransport returns a transport through the proxy of a session, which trusts its CA.
func ProxyTransport(t *testing.T, s admin.Session) *http.Transport {
	t.Helper()
	proxy, err := url.Parse(s.ProxyURL)
	check.Must(t, err)
	return &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: TLSConfig(t, s.CAFile)}
}

// TLSConfig returns the configuration of a client that trusts a CA.
func TLSConfig(t *testing.T, caFile string) *tls.Config {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(Read(t, caFile)) {
		t.Fatalf("%s is no CA", caFile)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// Post makes the post that ClientRules allow.
func (a Agent) Post() Outcome { return a.Call(http.MethodPost, Comments, Comment) }

// MustPost is Post that has to go out.
func (a Agent) MustPost(t *testing.T) {
	t.Helper()
	if o := a.Post(); o.Code != "" {
		t.Fatalf("%+v", o)
	}
}

// Read makes a read that ClientRules allow.
func (a Agent) Read() Outcome { return a.Call(http.MethodGet, "/repos/acme/site", "") }

// Call makes one call.
func (a Agent) Call(method, path, body string) Outcome {
	began := time.Now()
	out := Outcome{Code: "none"}
	req, err := http.NewRequest(method, a.Base+path, strings.NewReader(body))
	if err != nil {
		return out
	}
	maps.Copy(req.Header, a.Header)
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.Do(req)
	if err != nil {
		out.Detail = err.Error()
		return out
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	out.Took, out.Status = time.Since(began), resp.StatusCode
	if err != nil || resp.StatusCode < 300 {
		out.Code, out.Post = "", resp.Header.Get("ActionProof-Post")
		return out
	}
	var p problem.Details
	if json.Unmarshal(raw, &p) == nil {
		out.Code, out.Detail, out.Post, out.Challenge = p.Code, p.Detail, p.Post, p.Challenge
	}
	WantNothingTold(a.t, string(raw))
	out.Retry, _ = strconv.Atoi(resp.Header.Get("Retry-After"))
	return out
}

// Reason returns what the record says of a refusal, for the operator.
func (a Agent) Reason(o Outcome) string {
	var rec ledger.Record
	if o.Post == "" {
		return ""
	}
	if err := admin.Get(a.t.Context(), a.admin, "/v1/posts/"+o.Post, &rec); err != nil {
		return err.Error()
	}
	return rec.Reason
}

// inside matches what no refusal may tell an agent: names of keys, and what Vault, the operating system and databases
// say of them.
var inside = regexp.MustCompile(
	`(?i):v\d|vault\b|transit|approle|kv/|auth/|secret.id|\.(token|sock|db|json|jwk|pem)\b` +
		`|/run/|/tmp/|\b\d+\.\d+\.\d+\.\d+\b|unix|\bsql|insert|database|x509|\bdial\b|errno|no such file` +
		`|connection refused|permission`)

// random matches tokens and hashes, in which any short word may stand.
var random = regexp.MustCompile(`[\w-]{40,}`)

// WantNothingTold fails an answer that tells an agent of the deployment.
func WantNothingTold(t *testing.T, answer string) {
	t.Helper()
	answer = random.ReplaceAllString(answer, "")
	if found := inside.FindString(answer); found != "" {
		t.Errorf("the agent is told of %q: %s", found, answer)
	}
	for _, r := range bootstrap.Roles {
		if strings.Contains(answer, r.Key) {
			t.Errorf("the agent is told of the key %s: %s", r.Key, answer)
		}
	}
}
