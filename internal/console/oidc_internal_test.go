package console

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/test/check"
)

// idp is an OpenID provider that says what a test wants. It does not ask the user.
type idp struct {
	*httptest.Server
	t      *testing.T
	key    ed25519.PrivateKey
	asked  url.Values                 // of the last authorization request
	used   bool                       // its code
	claims map[string]any             // besides those of a good token, or in place of them
	token  func(claims []byte) string // nil signs the claims with key
	plain  string                     // the name of an endpoint without TLS
	more   string                     // a member of its metadata
	fails  http.HandlerFunc           // answers for a code, if not nil
}

func newIDP(t *testing.T) *idp {
	_, key, err := ed25519.GenerateKey(nil)
	check.Must(t, err)
	p := &idp{t: t, key: key}
	mux := http.NewServeMux()
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.fails != nil && r.URL.Path == "/token" {
			p.fails(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	answer := func(path string, status int, value func(r *http.Request) any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			said := value(r)
			if said == nil {
				w.WriteHeader(status)
				said = map[string]any{"error": "invalid_grant"}
			}
			_ = json.NewEncoder(w).Encode(said) // the client may hang up
		})
	}
	answer("/.well-known/openid-configuration", 0, func(*http.Request) any {
		found := map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/auth",
			"token_endpoint": p.URL + "/token",
			"jwks_uri":       p.URL + "/jwks", "id_token_signing_alg_values_supported": []string{"EdDSA", "HS256", "none"}}
		if p.more != "" {
			found["more"] = p.more
		}
		if p.plain != "" {
			found[p.plain] = strings.Replace(p.URL, "https", "http", 1) + "/" + p.plain
		}
		return found
	})
	answer("/jwks", 0, func(*http.Request) any {
		return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "EdDSA",
			Use: "sig"}}}
	})
	answer("/token", http.StatusBadRequest, func(r *http.Request) any {
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if p.used || r.PostFormValue("code") != "good" ||
			base64.RawURLEncoding.EncodeToString(sum[:]) != p.asked.Get("code_challenge") {
			return nil
		}
		p.used = true
		return map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": p.idToken()}
	})
	return p
}

// start is when the consoles of these tests begin.
var start = time.Unix(1_800_000_000, 0)

func (p *idp) idToken() string {
	claims := map[string]any{"iss": p.URL, "aud": "mediator", "sub": "ann", "exp": start.Add(time.Minute).Unix(),
		"iat": start.Unix(), "nonce": p.asked.Get("nonce"), "groups": []string{"security"}}
	maps.Copy(claims, p.claims)
	raw, err := json.Marshal(claims)
	check.Must(p.t, err)
	if p.token != nil {
		return p.token(raw)
	}
	return p.sign(p.key, raw)
}

func (p *idp) sign(key ed25519.PrivateKey, raw []byte) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	check.Must(p.t, err)
	signed, err := signer.Sign(raw)
	check.Must(p.t, err)
	text, err := signed.CompactSerialize()
	check.Must(p.t, err)
	return text
}

// team is a console whose users log in at the provider.
func (p *idp) team(t *testing.T) *asking {
	roots := x509.NewCertPool()
	roots.AddCert(p.Certificate())
	return newTeam(t, "https://console.test", &config.Console{Issuer: p.URL, ClientID: "mediator", Roots: roots,
		GroupsClaim: "groups", Groups: []string{"security"}, SummaryGroups: []string{"platform"}})
}

// leave goes to the provider, which remembers the request. It returns the state.
func (a *asking) leave(t *testing.T, p *idp, to string) (state string) {
	t.Helper()
	a.cookie = ""
	resp := a.ask(http.MethodGet, string(link("/login/provider", "to", to)), "")
	at, err := url.Parse(resp.Header.Get("Location"))
	check.Must(t, err)
	if resp.StatusCode != http.StatusSeeOther || !strings.HasPrefix(at.String(), p.URL+"/auth?") {
		t.Fatalf("status %d, to %s", resp.StatusCode, at)
	}
	c := resp.Cookies()[0]
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Name != "__Host-console-login" {
		t.Errorf("the cookie is %v", c)
	}
	a.cookie = c.Name + "=" + c.Value
	p.asked, p.used = at.Query(), false
	return p.asked.Get("state")
}

// back comes from the provider with an answer. It returns the code of the refusal, empty for a new session.
func (a *asking) back(t *testing.T, state string, more ...string) (code string) {
	t.Helper()
	resp := a.ask(http.MethodGet, string(link(callback, append([]string{"code", "good", "state", state}, more...)...)), "")
	if all := resp.Cookies(); len(all) == 0 || all[0].Name != "__Host-console-login" || all[0].MaxAge >= 0 {
		t.Errorf("the browser keeps the attempt: %v", all)
	}
	for _, c := range resp.Cookies() {
		if c.Name == "__Host-console" {
			check.WantEqual(t, c.SameSite, http.SameSiteStrictMode)
			a.cookie = c.Name + "=" + c.Value
			return ""
		}
	}
	return said(t, resp)
}

// said returns the code on the page of an error.
func said(t *testing.T, resp *http.Response) string {
	t.Helper()
	page, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	_, after, _ := strings.Cut(string(page), "<p><code>")
	code, _, _ := strings.Cut(after, "<")
	return code
}

func TestProviderRoles(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	a := p.team(t)
	if got := a.ask(http.MethodGet, "/feed?code=x", "").Header.Get("Location"); got != "/login?to=%2Ffeed%3Fcode%3Dx" {
		t.Errorf("without a session: %s", got)
	}
	for claim, feed := range map[any]string{"security": "", "platform": "console_denied"} {
		p.claims = map[string]any{"groups": claim}
		check.WantEqual(t, a.back(t, a.leave(t, p, "")), "")
		check.WantEqual(t, a.ask(http.MethodGet, "/keys", "").StatusCode, http.StatusOK)
		if got := said(t, a.ask(http.MethodGet, "/feed", "")); feed != "" && got != feed {
			t.Errorf("%s: the feed says %q", claim, got)
		}
	}
	a.now = a.now.Add(teamLife)
	check.WantEqual(t, a.ask(http.MethodGet, "/keys", "").Header.Get("Location"), "/login?to=%2Fkeys")
}

// TestHostileTokens: a token is good for one login, of this client, at this provider, for a while.
func TestHostileTokens(t *testing.T) {
	t.Parallel()
	type claims = map[string]any
	const failed, denied = "console_login_failed", "console_denied"
	_, other, err := ed25519.GenerateKey(nil)
	check.Must(t, err)
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	for name, tt := range map[string]struct {
		claims claims
		token  func(p *idp, raw []byte) string
		code   string
	}{
		"good":                       {},
		"one of two groups":          {claims: claims{"groups": []string{"sales", "security"}}},
		"two audiences and azp":      {claims: claims{"aud": []string{"mediator", "b"}, "azp": "mediator"}},
		"another nonce":              {claims: claims{"nonce": "other"}, code: failed},
		"no nonce":                   {claims: claims{"nonce": nil}, code: failed},
		"another audience":           {claims: claims{"aud": "other"}, code: failed},
		"two audiences":              {claims: claims{"aud": []string{"mediator", "other"}}, code: failed},
		"another party":              {claims: claims{"azp": "other"}, code: failed},
		"another issuer":             {claims: claims{"iss": "https://other.test"}, code: failed},
		"expired":                    {claims: claims{"exp": start.Add(-time.Second).Unix()}, code: failed},
		"no end":                     {claims: claims{"exp": nil}, code: failed},
		"no groups":                  {claims: claims{"groups": nil}, code: denied},
		"other groups":               {claims: claims{"groups": []string{"sales", "Security", ""}}, code: denied},
		"groups that are no strings": {claims: claims{"groups": []any{"security", 1}}, code: denied},
		"alg none": {code: failed, token: func(_ *idp, raw []byte) string {
			return none + "." + base64.RawURLEncoding.EncodeToString(raw) + "."
		}},
		"another key": {code: failed, token: func(p *idp, raw []byte) string { return p.sign(other, raw) }},
		"altered": {code: failed, token: func(p *idp, raw []byte) string {
			head, rest, _ := strings.Cut(p.sign(p.key, raw), ".")
			_, signature, _ := strings.Cut(rest, ".")
			return head + "." + base64.RawURLEncoding.EncodeToString(append(raw, ' ')) + "." + signature
		}},
		"names in another case": {code: failed, token: func(p *idp, raw []byte) string {
			return p.sign(p.key, bytes.Replace(raw, []byte(`"aud":"`), []byte(`"aud":"b","AUD":"`), 1))
		}},
		"a name with another letter": {code: failed, token: func(p *idp, raw []byte) string {
			return p.sign(p.key, bytes.Replace(raw, []byte(`{`), []byte(`{"ſub":"another",`), 1)) // folds as sub
		}},
		"a name twice": {code: failed, token: func(p *idp, raw []byte) string {
			return p.sign(p.key, bytes.Replace(raw, []byte(`{`), []byte(`{"groups":["sales"],`), 1))
		}},
		"no subject": {claims: claims{"sub": ""}, code: failed},
		"no token":   {code: failed, token: func(*idp, []byte) string { return "" }},
		"no members": {code: failed, token: func(p *idp, _ []byte) string { return p.sign(p.key, []byte(`[]`)) }},
		"long": {code: failed, token: func(p *idp, raw []byte) string {
			return p.sign(p.key, append(raw, strings.Repeat(" ", 2*maxAnswer)...))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newIDP(t)
			if p.claims = tt.claims; tt.token != nil {
				p.token = func(raw []byte) string { return tt.token(p, raw) }
			}
			a := p.team(t)
			check.WantEqual(t, a.back(t, a.leave(t, p, "")), tt.code)
		})
	}
}

// TestHostileAnswers: an answer is good once, for the browser that asked, and leads to a page of the console.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	const refused, failed = "console_refused", "console_login_failed"
	p := newIDP(t)
	a, victim := p.team(t), p.team(t)
	victim.leave(t, p, "")
	state := a.leave(t, p, "")
	check.WantEqual(t, victim.back(t, state), refused)
	victim.cookie = ""
	check.WantEqual(t, victim.back(t, state), refused)
	check.WantEqual(t, victim.back(t, attempt{}.derived("state")), refused)
	check.WantEqual(t, a.back(t, ""), refused)
	check.WantEqual(t, a.back(t, state, "error", "access_denied"), failed)
	left := a.cookie
	check.WantEqual(t, a.back(t, state), "")
	a.cookie = left // which a browser has removed
	check.WantEqual(t, a.back(t, state), failed)

	const here = "https://console.test/"
	for to, want := range map[string]string{
		"": here, "/feed?code=x": here + "feed?code=x", "/posts/a%2Fb": here + "posts/a%2Fb", here + "keys": here + "keys",
		"//evil.test/": here, "/\\evil.test": here + "%5Cevil.test", "https://evil.test/": here, "https:evil.test": here,
		"http://console.test/": here, "https://console.test@evil.test/": here, "https://a@console.test/": here,
		"javascript:alert(1)": here, "\r\nSet-Cookie: a=b": here, "/" + strings.Repeat("a", maxTo): here,
	} {
		state := a.leave(t, p, to)
		resp := a.ask(http.MethodGet, string(link(callback, "code", "good", "state", state)), "")
		check.WantEqual(t, resp.Header.Get("Refresh"), "0; url="+want)
		page, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		if strings.Contains(string(page), "evil.test") != strings.Contains(want, "evil.test") {
			t.Errorf("%q: %s", to, page)
		}
	}
}

func TestHostileProvider(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri"} {
		p := newIDP(t)
		p.plain = endpoint
		a := p.team(t)
		if endpoint == "authorization_endpoint" {
			check.WantEqual(t, said(t, a.ask(http.MethodGet, "/login/provider", "")), "console_login_failed")
			continue
		}
		check.WantEqual(t, a.back(t, a.leave(t, p, "")), "console_login_failed")
	}
	p := newIDP(t)
	p.more = strings.Repeat("x", maxAnswer)
	check.WantEqual(t, said(t, p.team(t).ask(http.MethodGet, "/login/provider", "")), "console_login_failed")

	p = newIDP(t)
	p.fails = func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "bad request by "+r.PostFormValue("client_id"), http.StatusBadRequest)
	}
	a := p.team(t)
	resp := a.ask(http.MethodGet, string(link(callback, "code", "good", "state", a.leave(t, p, ""))), "")
	if page, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(page), "console_login_failed") ||
		strings.Contains(string(page), "bad request") {
		t.Errorf("the page of a failed login is %s, %v", page, err)
	}
	// The answer may repeat the client's secret.
	if said := fmt.Sprint(a.logged.All()); !strings.Contains(said, "refused with 400") ||
		strings.Contains(said, "bad request") {
		t.Errorf("the log of a failed login is %s", said)
	}

	p.fails = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("again") {
			t.Error("the console sends a code and its secret where the provider's answer leads")
		}
		http.Redirect(w, r, p.URL+"/token?again", http.StatusTemporaryRedirect)
	}
	check.WantEqual(t, a.back(t, a.leave(t, p, "")), "console_login_failed")

	p = newIDP(t)
	a = p.team(t)
	p.Close()
	check.WantEqual(t, said(t, a.ask(http.MethodGet, "/login/provider", "")), "console_login_failed")
}

// TestFailedLogins: strangers, who need no account, write little into the log.
func TestFailedLogins(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	p.fails = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }
	a := p.team(t)
	began := time.Now()
	for range 3 * flood.Lines {
		check.WantEqual(t, a.back(t, a.leave(t, p, "")), "console_login_failed")
	}
	if n := a.logged.Len(); n != flood.Lines && time.Since(began) < flood.Window {
		t.Errorf("%d lines", n)
	}
}

// TestAsksAtOnce: strangers, who cause a request to the provider each, cause few at once.
func TestAsksAtOnce(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	var at, most atomic.Int64
	full := make(chan struct{})
	filled := sync.OnceFunc(func() { close(full) })
	p.fails = func(w http.ResponseWriter, _ *http.Request) {
		n := at.Add(1)
		defer at.Add(-1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
		if n >= maxAsks {
			filled()
		}
		<-full
		w.WriteHeader(http.StatusBadRequest)
	}
	a := p.team(t)
	var all sync.WaitGroup
	for range 8 * maxAsks {
		all.Go(func() {
			if _, _, err := a.provider.user(t.Context(), "x", attempt{verifier: "v"}); err == nil {
				t.Error("a stranger is believed")
			}
		})
	}
	all.Wait()
	check.WantEqual(t, most.Load(), int64(maxAsks))
}
