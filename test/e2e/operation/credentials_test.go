package operation

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

const tokenRules = `
actions:
  - name: comment
    match: {url: "https://PLAIN/repos/{owner}/{repo}/issues/{number}/comments", methods: [POST]}
    subject: agent:worker-1
    action: create_comment
    credential: {oauth: {tokenURL: "https://TOKENS/client", clientID: mediator, clientSecretFile: secrets/client}}
egress:
  - name: files
    match: {url: "https://PLAIN/bucket/**", methods: [GET, PUT]}
    credential: {aws: {service: s3, regions: [eu-central-1]}, file: secrets/aws}
  - name: reads
    match: {url: "https://PLAIN/**", methods: [GET]}
    credential:
      oauth: {tokenURL: "https://TOKENS/refresh", clientID: public, refreshTokenFile: secrets/refresh}
` + kit.Upstream + `  - {host: "TOKENS", address: 127.0.0.1, networks: [127.0.0.0/8], ca: api-ca.pem}
`

// tokens is the token endpoint of a rig, and the API that takes its tokens.
type tokens struct {
	mu      sync.Mutex // guards the fields below
	granted map[string]int
	refresh string // the only valid refresh token
	secret  string // of the client
	away    bool
	posts   int
}

func (s *tokens) grant(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	user, secret, _ := r.BasicAuth()
	refresh := r.PostFormValue("refresh_token")
	knows := user == "mediator" && secret == s.secret
	if r.URL.Path == "/refresh" {
		knows = refresh != "" && refresh == s.refresh
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case s.away:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintf(w, `{"seen": %q}`, secret+refresh)
	case !knows:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error": "invalid_grant"}`)
	default:
		s.granted[r.URL.Path]++
		n, further := s.granted[r.URL.Path], ""
		if refresh != "" {
			s.refresh = fmt.Sprint("further-refresh-token-", n)
			further = fmt.Sprintf(`, "refresh_token": %q`, s.refresh)
		}
		_, _ = fmt.Fprintf(w, `{"access_token": "access-token-of%s-%d", "token_type": "Bearer", "expires_in": 600%s}`,
			r.URL.Path, n, further)
	}
}

func (s *tokens) call(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	want := fmt.Sprintf("Bearer access-token-of/refresh-%d", s.granted["/refresh"])
	switch {
	case r.Method == http.MethodPost:
		want = fmt.Sprintf("Bearer access-token-of/client-%d", s.granted["/client"])
		s.posts++
	case strings.HasPrefix(r.URL.Path, "/bucket/"):
		got, signature, _ := strings.Cut(r.Header.Get("Authorization"), ", Signature=")
		if strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") && len(signature) == 64 &&
			r.Header.Get("X-Amz-Security-Token") == "the-session-token-of-sts" {
			return
		}
	}
	if r.Header.Get("Authorization") != want {
		http.Error(w, "another credential", http.StatusUnauthorized)
	}
}

// TestTokens gets access tokens and signs for AWS in the confined sidecar. A reload keeps the tokens unless a secret was
// replaced, a restart uses the stored refresh token, and a post without its token leaves its event.
func TestTokens(t *testing.T) {
	t.Parallel()
	server := &tokens{granted: make(map[string]int), refresh: "first-refresh-token",
		secret: "the-client-secret"}
	r := kit.PrepareRig(t, kit.Plain, func(r *kit.Rig) (http.Handler, string) {
		_, port, _ := strings.Cut(kit.ServeTLS(t, r.Dir, http.HandlerFunc(server.grant)), ":")
		return http.HandlerFunc(server.call), strings.ReplaceAll(tokenRules, "TOKENS", kit.Plain[0]+":"+port)
	}, kit.ManyPosts)
	kit.Write(t, r.In("secrets/client"), "the-client-secret")
	kit.Write(t, r.In("secrets/refresh"), "first-refresh-token")
	kit.Write(t, r.In("secrets/aws"), "[default]\naws_access_key_id = AKIDEXAMPLE\n"+
		"aws_secret_access_key = the-secret-access-key\naws_session_token = the-session-token-of-sts\n")
	r.Start(t)
	agent := r.OpenAgent(t)
	calls := func() {
		t.Helper()
		agent.MustPost(t)
		for _, o := range []kit.Outcome{agent.Read(), agent.Call(http.MethodGet, "/bucket/a%20b", ""),
			agent.Call(http.MethodPut, "/bucket/c", `{"a":1}`)} {
			if o.Code != "" {
				t.Errorf("%+v", o)
			}
		}
	}
	granted := func(client, refresh int) {
		t.Helper()
		if server.granted["/client"] != client || server.granted["/refresh"] != refresh {
			t.Errorf("granted %v", server.granted)
		}
	}
	calls()
	calls()
	granted(1, 1)
	kept, err := filepath.Glob(r.In("state/refresh-*"))
	check.Must(t, err)
	if len(kept) != 1 || !strings.Contains(string(kit.Read(t, kept[0])), server.refresh) {
		t.Errorf("stored: %v", kept)
	}
	metrics := kit.Metrics(t, r.Stack.Socket("serve"))
	for _, want := range []string{`until_seconds{rule="comment"} 1`, `until_seconds{rule="reads"} 1`,
		`read_seconds{rule="files"} 1`, `failures_total{rule="comment"} 0`} {
		if !strings.Contains(metrics, "mediator_credential_"+want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	reload := func() {
		t.Helper()
		kit.Mediator(t, "reload", "unix:"+r.Stack.Socket("serve")).Done("reloaded: configuration ")
		calls()
	}
	reload()
	granted(1, 1)
	kit.Write(t, r.In("secrets/client"), "the-client-secret\n") // the same secret
	reload()
	granted(1, 1)
	kit.Write(t, r.In("secrets/client"), "another-client-secret")
	server.mu.Lock()
	server.secret = "another-client-secret"
	server.mu.Unlock()
	reload()
	granted(2, 1)

	r.StopProcess(t, "serve")
	r.StartProcess(t, "serve")
	agent = r.OpenAgent(t)
	calls()
	granted(3, 2)

	r.StopProcess(t, "serve")
	server.mu.Lock()
	server.away = true
	server.mu.Unlock()
	r.StartProcess(t, "serve")
	agent, posts := r.OpenAgent(t), server.posts
	o := agent.Post()
	if read := agent.Read(); o.Code != "custody_unavailable" || read.Code != "custody_unavailable" ||
		server.posts != posts {
		t.Errorf("without a token: %+v, %+v", o, read)
	}
	failed := r.RecordsOf(t, "comment", "custody_unavailable")
	if len(failed) != 1 || failed[0].State != ledger.StateRefused || failed[0].Step != "custody" ||
		!strings.HasSuffix(failed[0].Reason, "/client refused with 503") {
		t.Errorf("%.2000s", fmt.Sprintf("%+v", failed))
	}
	log, err := os.ReadFile(r.In("serve.log"))
	check.Must(t, err)
	for _, text := range []string{string(log), metrics, fmt.Sprint(r.Records(t, "limit=1000"))} {
		for _, secret := range []string{"-client-secret", "refresh-token", "access-token-of", "the-secret-access-key",
			"the-session-token"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %.4096s", secret, text)
			}
		}
	}
}
