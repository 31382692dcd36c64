package botauth_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/botauth"
	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/test/check"
)

const origin = "https://agents.example.com"

var now = time.Unix(1735689600, 0)

func signer(t *testing.T, key botauth.Key, form string) *botauth.Signer {
	t.Helper()
	s, err := botauth.New(key, form, botauth.Options{Directory: origin, Lifetime: time.Minute,
		Now: func() time.Time { return now }})
	check.Must(t, err)
	return s
}

func public(t *testing.T, key custody.Key) ed25519.PublicKey {
	t.Helper()
	v, err := key.Current(t.Context())
	check.Must(t, err)
	return ed25519.PublicKey(v.Public())
}

func request(t *testing.T, method, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	check.Must(t, err)
	r.Header.Set("Content-Digest", "sha-256=:AAAA:")
	return r
}

func TestSign(t *testing.T) {
	key, err := custody.NewMemory("web-bot-auth-key")
	check.Must(t, err)
	member := `signature-agent;key="sig1"`
	for name, tt := range map[string]struct {
		form, method, url string
		also              []string
		agent             string
		covered           []string
	}{
		"a read": {botauth.Current, "GET", "https://api.example/a?b=1", nil, `sig1="` + origin + `"`,
			[]string{"@method", "@authority", "@path", "@query", member}},
		"a post": {botauth.Current, "POST", "https://api.example:8443/a", []string{"content-digest"},
			`sig1="` + origin + `"`, []string{"@method", "@authority", "@path", "content-digest", member}},
		"an earlier draft": {botauth.Legacy, "GET", "https://api.example/", nil, `"` + origin + `"`,
			[]string{"@method", "@authority", "@path", "signature-agent"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, tt.method, tt.url)
			check.Must(t, signer(t, key, tt.form).Sign(t.Context(), r, tt.also...))
			if got := r.Header.Get("Signature-Agent"); got != tt.agent {
				t.Errorf("the agent is %s", got)
			}
			s, err := httpsig.Verify(&httpsig.Message{Method: r.Method, Target: r.URL, Header: r.Header},
				httpsig.Expected{Components: tt.covered, Keys: httpsig.Keys{httpsig.KeyID(public(t, key)): public(t, key)},
					Tag: "web-bot-auth", Now: now, MaxAge: time.Minute, Skew: time.Second})
			check.Must(t, err)
			values, p, err := httpsig.Open(s.Base, s.Signature, s.Key)
			check.Must(t, err)
			nonce, err := base64.StdEncoding.DecodeString(p.Nonce)
			if err != nil || len(nonce) != 64 || !p.Created.Before(now) || !p.Expires.Equal(now.Add(time.Minute)) ||
				len(values) != len(tt.covered) {
				t.Errorf("%+v covers %v", p, values)
			}
		})
	}
	var none *botauth.Signer
	r := request(t, "GET", "https://api.example/")
	if err := none.Sign(t.Context(), r); err != nil || len(r.Header) != 1 {
		t.Errorf("%v: %v", err, r.Header)
	}
}

// TestVectors: the draft's, with the Ed25519 key of RFC 9421.
func TestVectors(t *testing.T) {
	const at = "https://signature-agent.test"
	key, err := base64.RawURLEncoding.DecodeString("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs")
	check.Must(t, err)
	keys := httpsig.Keys{"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U": key}
	for _, tt := range []struct{ agent, component, expires, nonce, signature string }{
		{`agent2="` + at + `"`, `signature-agent;key="agent2"`, "4889289600",
			"n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==",
			"RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg=="},
		{`"` + at + `"`, "signature-agent", "1735693200",
			"e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==",
			"jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA=="},
	} {
		r := request(t, "GET", "https://example.com/foo")
		covered := strings.Replace(`"@authority" "`+tt.component, `;`, `";`, 1)
		if !strings.Contains(covered, ";") {
			covered += `"`
		}
		r.Header.Set("Signature-Agent", tt.agent)
		r.Header.Set("Signature-Input", "sig2=("+covered+`);created=1735689600;`+
			`keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=`+tt.expires+
			`;nonce="`+tt.nonce+`";tag="web-bot-auth"`)
		r.Header.Set("Signature", "sig2=:"+tt.signature+":")
		_, err := httpsig.Verify(&httpsig.Message{Method: r.Method, Target: r.URL, Header: r.Header},
			httpsig.Expected{Components: []string{"@authority", tt.component}, Keys: keys, Tag: "web-bot-auth", Now: now,
				MaxAge: time.Minute, Skew: time.Second})
		if err != nil {
			t.Errorf("%s: %v", tt.component, err)
		}
	}
}

type broken struct{}

func (broken) Current(context.Context) (custody.Version, error) {
	return custody.Version{}, custody.Unavailable(nil, "Vault is away")
}

func TestSignRefuses(t *testing.T) {
	key, err := custody.NewMemory("web-bot-auth-key")
	check.Must(t, err)
	r := request(t, "GET", "https://api.example/")
	check.WantCode(t, signer(t, broken{}, botauth.Current).Sign(t.Context(), r), "custody_unavailable")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	check.WantCode(t, signer(t, key, botauth.Current).Sign(ended, r), "custody_unavailable")
	r.URL.RawQuery = "a=\u00e9"
	check.WantCode(t, signer(t, key, botauth.Current).Sign(t.Context(), r), "request_malformed")
}

func TestCheckOrigin(t *testing.T) {
	for at, ok := range map[string]bool{
		origin: true, "https://agents.example.com:8443": true, "https://[::1]:8443": true,
		"": false, "agents.example.com": false, "http://agents.example.com": false, origin + "/": false,
		origin + ":443": false, origin + "/a": false, origin + "?": false, origin + "#": false, "https://Agents.example": false,
		"https://user@agents.example.com": false, "https://": false, "https://:1": false, `https://a"b`: false,
	} {
		if err := botauth.CheckOrigin(at); (err == nil) != ok {
			t.Errorf("%q: %v", at, err)
		}
	}
}

func TestDirectory(t *testing.T) {
	key, err := custody.NewMemory("web-bot-auth-key")
	check.Must(t, err)
	d := botauth.Directory{MaxAge: time.Minute}
	handler := botauth.Handler(func() botauth.Directory { return d })
	get := func(method, path, etag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("If-None-Match", etag)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	if body := get("GET", botauth.Path, "").Body.String(); body != `{"keys":[]}` {
		t.Errorf("a directory without keys is %s", body)
	}
	d.Keys = []ed25519.PublicKey{public(t, key)}
	w := get("GET", botauth.Path, "")
	var set jose.JSONWebKeySet
	check.Must(t, json.Unmarshal(w.Body.Bytes(), &set))
	if len(set.Keys) != 1 || set.Keys[0].KeyID != httpsig.KeyID(d.Keys[0]) || !d.Keys[0].Equal(set.Keys[0].Key) ||
		strings.Contains(w.Body.String(), `"alg"`) || // EdDSA is no name of RFC 9421
		w.Header().Get("Content-Type") != "application/http-message-signatures-directory+json" ||
		w.Header().Get("Cache-Control") != "max-age=60" {
		t.Errorf("%s %v", w.Body, w.Header())
	}
	for want, w := range map[int]*httptest.ResponseRecorder{
		http.StatusNotModified:      get("GET", botauth.Path, w.Header().Get("Etag")),
		http.StatusNotFound:         get("GET", "/", ""),
		http.StatusMethodNotAllowed: get("POST", botauth.Path, ""),
		http.StatusOK:               get("HEAD", botauth.Path, ""),
	} {
		if w.Code != want || want == http.StatusOK && w.Body.Len() > 0 {
			t.Errorf("%d, want %d", w.Code, want)
		}
	}
}
