package custody

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/botauth"
	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

const signingRules = `
actions:
  - name: comment
    match: {url: "https://PLAIN/repos/{owner}/{repo}/issues/{number}/comments", methods: [POST]}
    subject: agent:worker-1
    action: create_comment
    credential: {prefix: "Bearer ", file: secrets/api-token}
    sign: web-bot-auth
  - name: old-comment
    match: {url: "https://PLAIN/old/comments", methods: [POST]}
    subject: agent:worker-1
    action: create_comment
    sign: web-bot-auth-legacy
egress:
  - name: signed
    match: {url: "https://PLAIN/repos/**", methods: [GET]}
    sign: web-bot-auth
  - name: old
    match: {url: "https://PLAIN/old/**", methods: [GET]}
    sign: web-bot-auth-legacy
  - name: unsigned
    match: {url: "https://PLAIN/unsigned/**", methods: [GET]}
` + kit.Upstream

const signingOrigin = "https://agents.example.com"

// signing lets a deployment sign requests. The control plane publishes the keys at an address.
func signing(at string) func(file string) string {
	const observer = "  interactionReceipt: {key: interaction-receipt-key, issuer: mediator-observer}\n"
	return func(file string) string {
		switch {
		case strings.Contains(file, "\ndeploymentId: "):
			return string(trial.Version11([]byte(file), `
webBotAuthPolicy:
  allowedIssuers: ["`+signingOrigin+`"]
  allowedAudiences: [posting-api]
  allowedKeyIds: [web-bot-auth-key]
  allowedKeyCustody: [external_mediator, hardware_backed]
  requireNonExportableKey: true
  maxDirectoryAgeMs: 2000
`))
		case strings.Contains(file, "\npolicy:"):
			return file + "\nwebBotAuth: " + at + "\n"
		}
		return strings.Replace(file, observer, observer+
			fmt.Sprintf("  webBotAuth: {key: web-bot-auth-key, issuer: %q}\n", signingOrigin), 1)
	}
}

type arrived struct {
	Method  string      `json:"method"`
	URL     string      `json:"url"`
	Headers [][2]string `json:"headers"`
	Body    []byte      `json:"body"`
}

// edge is an API that verifies every signed request. It fetches the directory only after its copy has expired.
type edge struct {
	t         *testing.T
	directory string

	mu      sync.Mutex // guards the rest
	keys    httpsig.Keys
	expires time.Time
	keyIDs  map[string]int // of verified requests
	seen    []arrived
	agents  []string // Signature-Agent fields of requests without a signature
}

func (e *edge) fetch() (keys httpsig.Keys, maxAge time.Duration, err error) {
	resp, err := http.Get(e.directory)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(resp.Body).Decode(&set); err != nil {
		return nil, 0, err
	}
	keys = make(httpsig.Keys)
	for _, k := range set.Keys {
		if key, ok := k.Key.(ed25519.PublicKey); ok {
			keys[k.KeyID] = key
		}
	}
	maxAge, err = time.ParseDuration(strings.TrimPrefix(resp.Header.Get("Cache-Control"), "max-age=") + "s")
	return keys, maxAge, err
}

func (e *edge) verify(r *http.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if now.After(e.expires) {
		keys, maxAge, err := e.fetch()
		if err != nil {
			return err
		}
		e.keys, e.expires = keys, now.Add(maxAge)
	}
	target, err := url.Parse("https://" + r.Host + r.RequestURI)
	if err != nil {
		return err
	}
	covered := []string{"@method", "@authority", "@path", "signature-agent"}
	if !strings.HasPrefix(r.URL.Path, "/old/") {
		covered[3] += `;key="sig1"`
	}
	if r.Method == http.MethodPost {
		covered = append(covered, "content-digest")
	}
	s, err := httpsig.Verify(&httpsig.Message{Method: r.Method, Target: target, Header: r.Header},
		httpsig.Expected{Components: covered, Keys: e.keys, Tag: "web-bot-auth", Now: now, MaxAge: kit.Patience,
			Skew: time.Second})
	if err == nil {
		e.keyIDs[s.Params.KeyID]++
	}
	return err
}

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := arrived{Method: r.Method, URL: "https://" + r.Host + r.RequestURI}
	a.Body, _ = io.ReadAll(r.Body)
	for name, values := range r.Header {
		for _, v := range values {
			a.Headers = append(a.Headers, [2]string{name, v})
		}
	}
	signed := !strings.HasPrefix(r.URL.Path, "/unsigned/")
	if signed {
		if err := e.verify(r); err != nil {
			e.t.Errorf("%s %s is refused: %v", r.Method, r.URL, err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.seen) < 16 {
		e.seen = append(e.seen, a)
	}
	if !signed {
		for _, name := range []string{"Signature", "Signature-Input", "Signature-Agent"} {
			e.agents = append(e.agents, r.Header[name]...)
		}
	}
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusCreated)
	}
	kit.AnswerJSON(w, `{}`)
}

func (e *edge) count(keyID string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.keyIDs[keyID]
}

func (e *edge) published(t *testing.T) (ids []string) {
	t.Helper()
	keys, _, err := e.fetch()
	check.Must(t, err)
	for id := range keys {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Requests are signed with a key in Vault by rules with sign, and by no others. Npm's packages verify them with the
// directory alone. While the key rotates, an API that caches the directory refuses no request.
func TestWebBotAuth(t *testing.T) {
	t.Parallel()
	node := kit.Need(t, "node")
	kit.NodeJS(t)
	at, err := freeport.Address()
	check.Must(t, err)
	e := &edge{t: t, directory: "http://" + at + botauth.Path, keyIDs: make(map[string]int)}
	v := newVault(t)
	v.Rig = kit.PrepareRig(t, kit.Plain, kit.Serve(e, signingRules), kit.ManyPosts, signing(at), v.config)
	v.Start(t)
	first := e.published(t)
	if len(first) != 1 {
		t.Fatalf("the directory has the keys %v", first)
	}

	a := v.OpenAgent(t)
	a.Header = http.Header{"Signature": {"sig1=:AAAA:"}, "Signature-Agent": {`sig1="https://other.example"`},
		"Signature-Input": {`sig1=("@authority");created=1;tag="web-bot-auth"`}, "Content-Digest": {"sha-256=:AAAA:"}}
	for _, call := range [][3]string{{"POST", kit.Comments, kit.Comment}, {"POST", "/old/comments", kit.Comment},
		{"GET", "/repos/acme/site?a=b&c=%2F", ""}, {"GET", "/old/", ""}, {"GET", "/unsigned/x", ""}} {
		if o := a.Call(call[0], call[1], call[2]); o.Code != "" {
			t.Errorf("%s %s: %+v: %s", call[0], call[1], o, a.Reason(o))
		}
	}
	if len(e.agents) > 0 {
		t.Errorf("a rule without sign sent %v", e.agents)
	}
	e.verifiedByNode(t, node, first[0])

	_, stop := v.keepPosting(t, 3)
	defer stop()
	v.asOwner(t, "keys", "rotate", bootstrap.BotAuth.Key)
	var second string
	kit.Until(t, "a directory with both versions", func() bool {
		ids := e.published(t)
		second = strings.Trim(strings.Replace(strings.Join(ids, " "), first[0], "", 1), " ")
		return len(ids) == 2 || t.Failed()
	})
	if e.count(second) > 0 {
		t.Error("a version signs before verifiers know it")
	}
	kit.Until(t, "requests signed with the next version", func() bool { return e.count(second) > 20 || t.Failed() })
	v.asOwner(t, "keys", "retire", bootstrap.BotAuth.Key, "--oldest", "2")
	kit.Until(t, "a directory without the retired version", func() bool {
		return slices.Equal(e.published(t), []string{second}) || t.Failed()
	})
	before := e.count(second)
	kit.Until(t, "more requests", func() bool { return e.count(second) > before+20 || t.Failed() })
}

func (e *edge) verifiedByNode(t *testing.T, node, keyID string) {
	t.Helper()
	e.mu.Lock()
	signed := slices.DeleteFunc(slices.Clone(e.seen), func(a arrived) bool { return strings.Contains(a.URL, "/unsigned/") })
	e.mu.Unlock()
	var forged []arrived
	for _, a := range signed {
		other := a
		other.URL = strings.Replace(a.URL, "https://", "https://other.", 1)
		forged = append(forged, other)
	}
	in, err := json.Marshal(map[string]any{"directory": e.directory, "requests": append(signed, forged...)})
	check.Must(t, err)
	cmd := exec.Command(node, "--no-warnings", kit.Scripts+"node/web-bot-auth.mjs")
	cmd.Dir, cmd.Stdin = kit.Top, strings.NewReader(string(in))
	out, errs, err := kit.Output(cmd)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err != nil || len(signed) != 4 || len(lines) != 2*len(signed) {
		t.Fatalf("%d requests: %v %s %s", len(signed), err, out, errs)
	}
	for i, a := range signed {
		want := "http-message-sig current " + keyID
		if strings.Contains(a.URL, "/old/") {
			want = "web-bot-auth legacy " + keyID
		}
		if lines[i] != want {
			t.Errorf("%s %s: %s, want %s", a.Method, a.URL, lines[i], want)
		}
		if forged := lines[len(signed)+i]; !strings.HasPrefix(forged, "refused ") {
			t.Errorf("%s, to another authority: %s", a.Method, forged)
		}
	}
}
