package python_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/botauth"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// script runs a module of the package's tests. It decodes what that prints.
func script(t *testing.T, module string, stdin []byte, into any) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, "-m", "tests."+module)
	source, err := filepath.Abs(filepath.Join(root, "src"))
	check.Must(t, err)
	cmd.Dir, cmd.Stdin, cmd.Stderr = root, bytes.NewReader(stdin), os.Stderr
	cmd.Env = append(os.Environ(), "PYTHONPATH="+source, "PYTHONDONTWRITEBYTECODE=1")
	raw, err := cmd.Output()
	check.Must(t, err)
	check.Must(t, json.Unmarshal(raw, into))
}

// TestSignedAnswers: the sidecar accepts the signed answers of FastAPI, Starlette and Flask, and no other.
func TestSignedAnswers(t *testing.T) {
	t.Parallel()
	var answers []struct {
		Name, Key    string
		Sent, Header map[string]string
		Status       int
		Body         []byte
	}
	script(t, "answers", nil, &answers)
	header := func(of map[string]string) http.Header {
		h := http.Header{}
		for name, value := range of {
			h.Set(name, value)
		}
		return h
	}
	for _, a := range answers {
		keys, err := httpsig.ParseKeys([]byte(a.Key))
		check.Must(t, err)
		for name, change := range map[string]func(out *http.Request, resp *http.Response){
			"":                   func(*http.Request, *http.Response) {},
			"another status":     func(_ *http.Request, resp *http.Response) { resp.StatusCode = http.StatusOK },
			"another path":       func(out *http.Request, _ *http.Response) { out.URL.Path = "/other" },
			"another host":       func(out *http.Request, _ *http.Response) { out.URL.Host = "other.example.com" },
			"another capability": func(out *http.Request, _ *http.Response) { out.Header.Set("Idempotency-Key", "x") },
			"another body": func(_ *http.Request, resp *http.Response) {
				resp.Header.Set("Content-Digest", httpsig.ContentDigest(sha256.Sum256(nil)))
			},
		} {
			at := &url.URL{Scheme: "https", Host: "api.example.com", Path: "/posts"}
			out := &http.Request{Method: http.MethodPost, URL: at, Header: header(a.Sent)}
			resp := &http.Response{StatusCode: a.Status, Header: header(a.Header)}
			change(out, resp)
			answer, digest, err := gate.VerifyAnswer(out, resp, keys, time.Now())
			if name == "" && (err != nil || digest != sha256.Sum256(a.Body) || answer.KeyID == "" || a.Status != 201) {
				t.Errorf("%s: %d %v, %v", a.Name, a.Status, a.Header, err)
			} else if name != "" && err == nil {
				t.Errorf("%s: %s is accepted", a.Name, name)
			}
		}
	}
	check.WantEqual(t, len(answers), 3)
}

// TestWebBotAuth: the package verifies what the mediator signs, and refuses it changed.
func TestWebBotAuth(t *testing.T) {
	t.Parallel()
	key := kit.MemoryKey(t, "web-bot-auth-key")
	now := time.Unix(1_800_000_000, 0)
	current, err := key.Current(t.Context())
	check.Must(t, err)
	directory := httptest.NewRecorder()
	botauth.Handler(func() botauth.Directory {
		return botauth.Directory{Keys: []ed25519.PublicKey{ed25519.PublicKey(current.Public())}, MaxAge: time.Minute}
	}).ServeHTTP(directory, httptest.NewRequest(http.MethodGet, botauth.Path, nil))
	type request struct {
		Method, URL string
		Header      http.Header
		Body        []byte
		Directory   json.RawMessage
		Now         int64
	}
	signed := func(form, at string) request {
		s, err := botauth.New(key, form, botauth.Options{Directory: "https://agents.example.com", Lifetime: time.Minute,
			Now: func() time.Time { return now }})
		check.Must(t, err)
		body := []byte(`{"text":"hello"}`)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, bytes.NewReader(body))
		check.Must(t, err)
		r.Header.Set("Content-Digest", httpsig.ContentDigest(sha256.Sum256(body)))
		check.Must(t, s.Sign(t.Context(), r, "content-digest"))
		return request{r.Method, at, r.Header, body, directory.Body.Bytes(), now.Unix()}
	}
	var asked []request
	var want []string
	ask := func(code string, r request) { asked, want = append(asked, r), append(want, code) }
	const invalid = "refused signature_invalid"
	const at = "https://API.example.com:443/posts?a=1"
	for _, form := range []string{botauth.Current, botauth.Legacy} {
		ask("verified ok https://agents.example.com", signed(form, at))
		ask("verified ok https://agents.example.com", signed(form, "https://api.example.com/posts%2f"))
		for _, tt := range []struct {
			want   string
			change func(*request)
		}{
			{invalid, func(r *request) { r.Method = "PUT" }},
			{invalid, func(r *request) { r.URL = "https://api.example.com/posts?a=2" }},
			{invalid, func(r *request) { r.URL = "https://other.example.com/posts?a=1" }},
			{invalid, func(r *request) { r.Body = []byte("{}") }},
			{invalid, func(r *request) {
				r.Header.Set("Signature-Agent", strings.ReplaceAll(r.Header.Get("Signature-Agent"), "agents", "others"))
			}},
			{invalid, func(r *request) { r.Header.Add("Signature", `sig1=:AAAA:`) }},
			{invalid, func(r *request) {
				r.Header.Add("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), "sig1", "sig2", 1))
			}},
			{invalid, func(r *request) { r.Header.Del("Signature") }},
			{"refused expired", func(r *request) { r.Now += 121 }},
			{"refused clock_skew", func(r *request) { r.Now -= 66 }},
			{"refused key_unknown", func(r *request) { r.Directory = json.RawMessage(`{"keys":[]}`) }},
			{"absent proof_missing", func(r *request) { r.Header = http.Header{} }},
		} {
			r := signed(form, at)
			tt.change(&r)
			ask(tt.want, r)
		}
	}
	raw, err := json.Marshal(asked)
	check.Must(t, err)
	var got []struct{ Status, Code, Agent, Detail string }
	script(t, "botauth", raw, &got)
	for i, v := range got {
		if said := strings.TrimSpace(v.Status + " " + v.Code + " " + v.Agent); said != want[i] {
			t.Errorf("%d: %s (%s), want %s", i, said, v.Detail, want[i])
		}
	}
	check.WantEqual(t, len(got), len(want))
}
