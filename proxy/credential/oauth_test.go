package credential_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/proxy/credential"
	"github.com/actionproof/mediator/proxy/echo"
	"github.com/actionproof/mediator/test/check"
)

// tokenServer is a token endpoint that answers as the test says, and keeps what it was asked.
type tokenServer struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []url.Values
	basic  []string
	answer func(w http.ResponseWriter, form url.Values)
}

func newTokenServer(t *testing.T, answer func(http.ResponseWriter, url.Values)) *tokenServer {
	s := &tokenServer{answer: answer}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		user, password, _ := r.BasicAuth()
		s.mu.Lock()
		s.asked, s.basic = append(s.asked, r.PostForm), append(s.basic, user+":"+password)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		s.answer(w, r.PostForm)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) options() credential.OAuthOptions {
	return credential.OAuthOptions{TokenEndpoint: credential.TokenEndpoint{URL: s.URL + "/token", ClientID: "mediator"},
		HTTP: s.Client().Transport, Now: time.Now}
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	check.Must(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
	return path
}

func gives(token string) func(http.ResponseWriter, url.Values) {
	return func(w http.ResponseWriter, _ url.Values) {
		fmt.Fprintf(w, `{"access_token": %q, "token_type": "Bearer", "expires_in": 600}`, token)
	}
}

func wantValue(t *testing.T, s credential.Source, want string) credential.Value {
	t.Helper()
	v, err := s.Current(t.Context())
	if err != nil || v.Secret != want {
		t.Fatalf("got %q, %v; want %q", v.Secret, err, want)
	}
	return v
}

func TestClientCredentials(t *testing.T) {
	for _, inParams := range []bool{false, true} {
		s := newTokenServer(t, gives("access-token"))
		o := s.options()
		o.SecretFile, o.InParams = secretFile(t, "client:secret"), inParams
		o.Scopes, o.Audience, o.Resource = []string{"a", "b"}, "api", "https://api.example/"
		v := wantValue(t, credential.OAuth(o), "access-token")
		if left := time.Until(v.End); left < 9*time.Minute || left > 10*time.Minute {
			t.Errorf("the token ends in %s", left)
		}
		want := "audience=api&grant_type=client_credentials&resource=https%3A%2F%2Fapi.example%2F&scope=a+b"
		basic := "mediator:client%3Asecret" // RFC 6749 section 2.3.1
		if inParams {
			want = "audience=api&client_id=mediator&client_secret=client%3Asecret&" + want[len("audience=api&"):]
			basic = ":"
		}
		if got := s.asked[0].Encode(); got != want || s.basic[0] != basic {
			t.Errorf("asked %s by %s", got, s.basic[0])
		}
	}
}

// TestRenewal uses a token to the last tenth of its life, renews it once for concurrent calls, and uses it to its end
// if that fails.
func TestRenewal(t *testing.T) {
	now, made, fails := time.Now(), 0, false
	var mu sync.Mutex
	s := credential.Renewed(func() time.Time { mu.Lock(); defer mu.Unlock(); return now },
		func(context.Context) (credential.Value, error) {
			mu.Lock()
			defer mu.Unlock()
			if made++; fails {
				return credential.Value{}, io.ErrUnexpectedEOF
			}
			return credential.Value{Secret: fmt.Sprint("token-", made), End: now.Add(10 * time.Minute)}, nil
		})
	passes := func(d time.Duration) { mu.Lock(); now = now.Add(d); mu.Unlock() }
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() { wantValue(t, s, "token-1") })
	}
	wait.Wait()
	passes(9*time.Minute - time.Nanosecond)
	v := wantValue(t, s, "token-1")
	s.Refused(v)
	wantValue(t, s, "token-2")
	s.Refused(v)                          // an earlier one
	s.Refused(wantValue(t, s, "token-2")) // only just made
	wantValue(t, s, "token-2")
	passes(9 * time.Minute)
	mu.Lock()
	fails = true
	mu.Unlock()
	wantValue(t, s, "token-2")
	passes(time.Minute)
	if _, err := s.Current(t.Context()); err == nil {
		t.Error("a token is used after its end")
	}
	if _, err := s.Current(t.Context()); err == nil || made != 4 {
		t.Errorf("a failure is followed by another try at once: %d tries", made)
	}
	fails = false
	passes(10 * time.Second)
	wantValue(t, s, "token-5")
}

// TestRefreshTokens stores the token that replaces another before the access token is used.
func TestRefreshTokens(t *testing.T) {
	n := 0
	s := newTokenServer(t, func(w http.ResponseWriter, form url.Values) {
		if n > 0 && form.Get("refresh_token") != fmt.Sprint("rotated-", n) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error": "invalid_grant"}`)
			return
		}
		n++
		fmt.Fprintf(w, `{"access_token": "access-%d", "refresh_token": "rotated-%[1]d", "expires_in": 600}`, n)
	})
	o := s.options()
	o.RefreshFile, o.Kept = secretFile(t, "first"), filepath.Join(t.TempDir(), "refresh-1")
	wantValue(t, credential.OAuth(o), "access-1")
	wantValue(t, credential.OAuth(o), "access-2") // after a restart
	if info, err := os.Stat(o.Kept); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token is stored as %v, %v", info.Mode(), err)
	}
	if got := s.asked[0].Get("refresh_token") + " " + s.asked[1].Get("refresh_token"); got != "first rotated-1" {
		t.Errorf("used %s", got)
	}
	n, o.RefreshFile = 0, secretFile(t, "another-first")
	wantValue(t, credential.OAuth(o), "access-1")
	if got := s.asked[2].Get("refresh_token"); got != "another-first" {
		t.Errorf("after a new first token, %s was used", got)
	}
	asked := len(s.asked)
	check.Must(t, os.WriteFile(o.Kept, []byte(`{"first":`), 0o600))
	_, err := credential.OAuth(o).Current(t.Context())
	check.WantCode(t, err, "custody_unavailable", "cannot be read")
	o.Kept = filepath.Join(t.TempDir(), "absent", "refresh")
	_, err = credential.OAuth(o).Current(t.Context())
	check.WantCode(t, err, "custody_unavailable", "cannot be stored")
	if len(s.asked) != asked {
		t.Error("a token was spent whose successor has no place")
	}
}

// TestSharedRefreshToken has rules with different scopes use one refresh token, whose server refuses a second use.
func TestSharedRefreshToken(t *testing.T) {
	var mu sync.Mutex
	valid := "first"
	s := newTokenServer(t, func(w http.ResponseWriter, form url.Values) {
		mu.Lock()
		defer mu.Unlock()
		if form.Get("refresh_token") != valid {
			valid = "none"
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		valid = "after " + form.Get("scope")
		fmt.Fprintf(w, `{"access_token": "access", "refresh_token": %q}`, valid)
	})
	o := s.options()
	o.RefreshFile, o.Kept = secretFile(t, "first"), filepath.Join(t.TempDir(), "refresh")
	var wait sync.WaitGroup
	for i := range 10 {
		o.Scopes = []string{fmt.Sprint(i)}
		source := credential.OAuth(o)
		wait.Go(func() {
			if _, err := source.Current(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// TestRenewalIsOfNoCall renews without what the context of the first call says, and without its end.
func TestRenewalIsOfNoCall(t *testing.T) {
	type key struct{}
	s := credential.Renewed(time.Now, func(ctx context.Context) (credential.Value, error) {
		if ctx.Value(key{}) != nil {
			t.Error("the renewal has the values of a call")
		}
		return credential.Value{Secret: "token"}, nil
	})
	if _, err := s.Current(context.WithValue(t.Context(), key{}, "direct")); err != nil {
		t.Error(err)
	}
}

// TestUnknownEnd uses a token without an end further on if it cannot be renewed.
// TestSlowRenewal: while the token endpoint hangs, calls go on with a token that lives, and with no other.
func TestSlowRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, hangs := time.Now(), false
		s := credential.Renewed(time.Now, func(ctx context.Context) (credential.Value, error) {
			if hangs {
				<-ctx.Done()
				return credential.Value{}, custody.Unavailable(ctx.Err(), "the token endpoint hangs")
			}
			return credential.Value{Secret: "token", End: began.Add(time.Hour)}, nil
		})
		wantValue(t, s, "token")
		hangs = true
		for _, tt := range []struct {
			after time.Duration
			lives bool
		}{{55 * time.Minute, true}, {time.Hour - time.Millisecond, false}} {
			time.Sleep(time.Until(began.Add(tt.after)))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			v, err := s.Current(ctx)
			cancel()
			if (err == nil) != tt.lives || tt.lives && v.Secret != "token" {
				t.Errorf("after %s: %q, %v", tt.after, v.Secret, err)
			}
		}
		time.Sleep(time.Minute) // the last renewal ends
	})
}

func TestUnknownEnd(t *testing.T) {
	now, fails := time.Now(), error(nil)
	s := credential.Renewed(func() time.Time { return now }, func(context.Context) (credential.Value, error) {
		return credential.Value{Secret: "token"}, fails
	})
	wantValue(t, s, "token")
	now, fails = now.Add(2*time.Hour), io.ErrUnexpectedEOF
	wantValue(t, s, "token")
	wantValue(t, s, "token")
}

// TestEndedToken: a token that has ended when it comes is not used, nor is another one asked for at once.
func TestEndedToken(t *testing.T) {
	s := newTokenServer(t, func(w http.ResponseWriter, _ url.Values) {
		_, _ = io.WriteString(w, `{"access_token": "ended", "token_type": "Bearer", "expires_in": -1}`)
	})
	source := credential.OAuth(s.options())
	for range 2 {
		_, err := source.Current(t.Context())
		check.WantCode(t, err, "custody_unavailable", "had ended at")
	}
	check.WantEqual(t, len(s.asked), 1)
}

// TestRefusedToken: an agent whose calls always get 401 has a token of others renewed seldom, and takes it from nobody.
func TestRefusedToken(t *testing.T) {
	now, made, fails := time.Now(), 0, false
	s := credential.Renewed(func() time.Time { return now }, func(context.Context) (credential.Value, error) {
		if fails {
			return credential.Value{}, io.ErrUnexpectedEOF
		}
		made++
		return credential.Value{Secret: fmt.Sprint("token-", made), End: now.Add(time.Hour)}, nil
	})
	hour := func() {
		for range 3600 {
			v, err := s.Current(t.Context())
			check.Must(t, err)
			s.Refused(v)
			now = now.Add(time.Second)
		}
	}
	if hour(); made != 20 {
		t.Errorf("in an hour %d tokens were made for 3600 refusals", made)
	}
	v, err := s.Current(t.Context())
	check.Must(t, err)
	fails, now = true, now.Add(5*time.Minute)
	s.Refused(v)
	wantValue(t, s, v.Secret)
	now = now.Add(time.Minute)
	fails = false
	wantValue(t, s, fmt.Sprint("token-", made+1))
}

// TestUnfitToken: a token that no call can carry is soon renewed, as one that the API refuses.
func TestUnfitToken(t *testing.T) {
	now, token := time.Now(), "a token\nof two lines"
	source := credential.Renewed(func() time.Time { return now }, func(context.Context) (credential.Value, error) {
		return credential.Value{Secret: token, End: now.Add(time.Hour)}, nil
	})
	form, err := credential.Header("Authorization", "Bearer ", echo.Auto)
	check.Must(t, err)
	c, err := credential.New(source, form)
	check.Must(t, err)
	_, err = c.Resolve(t.Context(), nil)
	check.WantCode(t, err, "custody_unavailable", "no header can carry")
	now, token = now.Add(4*time.Minute), "token-of-one-line"
	_, _ = c.Resolve(t.Context(), nil)
	_, err = c.Resolve(t.Context(), nil)
	check.Must(t, err)
}

func TestTokenExchange(t *testing.T) {
	s := newTokenServer(t, gives("exchanged"))
	o := s.options()
	o.SubjectFile, o.SubjectType, o.Audience = secretFile(t, "subject"), "jwt", "api"
	wantValue(t, credential.OAuth(o), "exchanged")
	if got := s.asked[0].Encode(); got != "audience=api&client_id=mediator&grant_type="+
		"urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=subject&subject_token_type="+
		"urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt" {
		t.Errorf("asked %s", got)
	}
}

func TestIdentityAssertion(t *testing.T) {
	kind := "urn:ietf:params:oauth:token-type:id-jag"
	idp := newTokenServer(t, func(w http.ResponseWriter, _ url.Values) {
		fmt.Fprintf(w, `{"access_token": "the-assertion", "token_type": "N_A", "issued_token_type": %q, "expires_in": 300}`,
			kind)
	})
	s := newTokenServer(t, gives("for-the-api"))
	o := s.options()
	o.SubjectFile, o.SubjectType, o.Audience = secretFile(t, "id-token"), "id_token", s.URL
	o.Identity = &credential.TokenEndpoint{URL: idp.URL, ClientID: "at-idp", SecretFile: secretFile(t, "idp-secret")}
	wantValue(t, credential.OAuth(o), "for-the-api")
	if f := idp.asked[0]; f.Get("requested_token_type") != kind || f.Get("subject_token") != "id-token" ||
		f.Get("audience") != s.URL || idp.basic[0] != "at-idp:idp-secret" {
		t.Errorf("the identity provider was asked %v by %s", f, idp.basic[0])
	}
	if f := s.asked[0]; f.Get("assertion") != "the-assertion" ||
		f.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
		t.Errorf("the authorization server was asked %v", f)
	}
	kind = "urn:ietf:params:oauth:token-type:access_token"
	_, err := credential.OAuth(o).Current(t.Context())
	check.WantCode(t, err, "custody_unavailable", "no identity assertion")
}

// TestTokenEndpointFails bounds and names what a token endpoint can do wrong, and shows no secret.
func TestTokenEndpointFails(t *testing.T) {
	answer := func(status int, kind, body string) func(http.ResponseWriter, url.Values) {
		return func(w http.ResponseWriter, _ url.Values) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter, url.Values)
		want   string
	}{
		"10 MB": {answer(200, "application/json", `{"access_token": "`+strings.Repeat("x", 10<<20)+`"}`),
			"more than 65536 bytes"},
		"HTML": {answer(200, "text/html", "<html>Sign in</html>"),
			`answered with 200 and "text/html" instead of JSON`},
		"a form":      {answer(200, "application/x-www-form-urlencoded", "access_token=x"), "instead of JSON"},
		"nothing":     {answer(200, "application/json", ""), "no content"},
		"no token":    {answer(200, "application/json", `{"token_type": "Bearer"}`), "without an access token"},
		"broken JSON": {answer(200, "application/json", `{"access_token`), "without an access token"},
		"a redirect": {func(w http.ResponseWriter, _ url.Values) {
			w.Header().Set("Location", "https://elsewhere.example/token")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "a redirect (307), which is not followed"},
		"a refusal": {answer(401, "application/json",
			`{"error": "invalid_client", "error_description": "client-secret"}`), "refused with 401 invalid_client"},
		"a refusal with 200": {answer(200, "application/json", `{"error": "bad_verification_code"}`),
			"refused with 200 bad_"},
		"a hostile refusal": {answer(400, "application/json", `{"error": "client-secret"}`), "refused with 400"},
		"a failure":         {answer(500, "application/json", `{}`), "refused with 500"},
		"a broken connection": {func(http.ResponseWriter, url.Values) { panic(http.ErrAbortHandler) },
			"does not answer"},
		"another clock": {func(w http.ResponseWriter, f url.Values) {
			w.Header().Set("Date", time.Now().Add(5*time.Minute).UTC().Format(http.TimeFormat))
			answer(400, "application/json", `{"error": "invalid_grant"}`)(w, f)
		}, "refused with 400 invalid_grant; its clock is "},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTokenServer(t, tt.answer)
			o := s.options()
			o.SecretFile = secretFile(t, "client-secret")
			source := credential.OAuth(o)
			_, err := source.Current(t.Context())
			check.WantCode(t, err, "custody_unavailable", tt.want)
			if _, again := source.Current(t.Context()); again == nil || len(s.asked) != 1 ||
				strings.Contains(err.Error(), "client-secret") {
				t.Errorf("asked %d times: %v", len(s.asked), err)
			}
		})
	}
}

func TestGoogle(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	check.Must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	check.Must(t, err)
	file, err := json.Marshal(map[string]string{"type": "service_account", "project_id": "p", "private_key_id": "k1",
		"client_email": "agent@p.iam.gserviceaccount.com",
		"private_key":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))})
	check.Must(t, err)
	s := newTokenServer(t, gives("ya29.token"))
	o := credential.GoogleOptions{KeyFile: secretFile(t, string(file)), Scopes: []string{"a", "b"}, TokenURL: s.URL,
		HTTP: s.Client().Transport, Now: time.Now}
	if v := wantValue(t, credential.Google(o), "ya29.token"); v.ID != "agent@p.iam.gserviceaccount.com" {
		t.Errorf("the key is of %s", v.ID)
	}
	jws, err := jose.ParseSignedCompact(s.asked[0].Get("assertion"), []jose.SignatureAlgorithm{jose.RS256})
	check.Must(t, err)
	payload, err := jws.Verify(&key.PublicKey)
	check.Must(t, err)
	var claims struct {
		Iss, Scope, Aud string
		Iat, Exp        int64
	}
	check.Must(t, json.Unmarshal(payload, &claims))
	if claims.Iss != "agent@p.iam.gserviceaccount.com" || claims.Scope != "a b" || claims.Aud != s.URL ||
		claims.Exp-claims.Iat != 3600 || time.Since(time.Unix(claims.Iat, 0)).Abs() > time.Minute ||
		jws.Signatures[0].Header.KeyID != "k1" {
		t.Errorf("the key has signed %s", payload)
	}
	for name, text := range map[string]string{"no JSON": "key", "a user": `{"type": "authorized_user"}`,
		"no key": `{"type": "service_account", "client_email": "a"}`,
		"no PEM": `{"type": "service_account", "client_email": "a", "private_key": "b"}`} {
		o.KeyFile = secretFile(t, text)
		_, err := credential.Google(o).Current(t.Context())
		check.WantCode(t, err, "custody_unavailable")
		if credential.CheckGoogleKey(text) == nil {
			t.Errorf("%s is a key", name)
		}
	}
}
