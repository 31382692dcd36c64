package credential_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/proxy/credential"
	"github.com/actionproof/mediator/proxy/echo"
	"github.com/actionproof/mediator/test/check"
)

const secretToken = "the-credential-of-the-upstream"

// fixed is a source whose value never changes.
type fixed credential.Value

func (f fixed) Current(context.Context) (credential.Value, error) { return credential.Value(f), nil }
func (fixed) Refused(credential.Value)                            {}

func use(t *testing.T, form credential.Form, err error, v credential.Value) credential.Use {
	t.Helper()
	check.Must(t, err)
	c, err := credential.New(fixed(v), form)
	check.Must(t, err)
	u, err := c.Resolve(t.Context(), nil)
	check.Must(t, err)
	return u
}

func TestForms(t *testing.T) {
	of := func(f credential.Form, err error) func() (credential.Form, error) {
		return func() (credential.Form, error) { return f, err }
	}
	for name, tt := range map[string]struct {
		form  func() (credential.Form, error)
		value credential.Value
		// What is sent for ?a=1&key=agents&KEY=2;k%65y=3 with the agent's own credentials.
		header, want, query string
		bound               string
	}{
		"header": {of(credential.Header("x-token", "Token ", echo.Auto)), credential.Value{Secret: secretToken},
			"X-Token", "Token " + secretToken, "a=1&key=agents&KEY=2;k%65y=3", "Token " + secretToken},
		"basic with a user": {of(credential.Basic("alice", echo.Auto)), credential.Value{Secret: "open-sesame"},
			"Authorization", "Basic YWxpY2U6b3Blbi1zZXNhbWU=", "a=1&key=agents&KEY=2;k%65y=3",
			`{"id":"alice","kind":"basic","version":""}`},
		"basic with the source's user": {of(credential.Basic("", echo.Auto)),
			credential.Value{ID: "alice", Secret: "open-sesame", Version: "7"},
			"Authorization", "Basic YWxpY2U6b3Blbi1zZXNhbWU=", "a=1&key=agents&KEY=2;k%65y=3",
			`{"id":"alice","kind":"basic","version":"7"}`},
		"basic as a pair": {of(credential.Basic("", echo.Auto)), credential.Value{Secret: "alice:open-sesame"},
			"Authorization", "Basic YWxpY2U6b3Blbi1zZXNhbWU=", "a=1&key=agents&KEY=2;k%65y=3",
			`{"id":"","kind":"basic","version":""}`},
		"query": {of(credential.Query("key")), credential.Value{Secret: "a+b/c=d&e f"},
			"", "", "a=1&key=a%2Bb%2Fc%3Dd%26e+f", `{"id":"","kind":"query key","version":""}`},
		"cookie": {of(credential.Cookie("session")), credential.Value{Secret: secretToken},
			"Cookie", "session=" + secretToken, "a=1&key=agents&KEY=2;k%65y=3",
			`{"id":"","kind":"cookie session","version":""}`},
	} {
		t.Run(name, func(t *testing.T) {
			form, err := tt.form()
			u := use(t, form, err, tt.value)
			r, err := http.NewRequest("POST", "https://api.example/x?a=1&key=agents&KEY=2;k%65y=3", nil)
			check.Must(t, err)
			r.Header = http.Header{"Authorization": {"mine"}, "Cookie": {"mine=1"}, "X_token": {"mine"},
				"X-Other": {"1"}, "Range": {"bytes=0-1"}}
			check.Must(t, u.Apply(r, nil))
			want := http.Header{"X-Other": {"1"}, "Accept-Encoding": {"identity"}}
			if tt.header != "" {
				want.Set(tt.header, tt.want)
			}
			if name != "header" {
				want["X_token"] = []string{"mine"}
			}
			if got := fmt.Sprint(r.Header); got != fmt.Sprint(want) || r.URL.RawQuery != tt.query {
				t.Errorf("sent %s and ?%s", got, r.URL.RawQuery)
			}
			if u.Hash() != evidence.HashBytes([]byte(tt.bound)) {
				t.Errorf("the proof binds another text than %s", tt.bound)
			}
			for _, part := range []string{tt.value.Secret[len(tt.value.Secret)/2:], tt.value.Secret} {
				resp := &http.Response{Header: http.Header{"X-Said": {part}}, Body: http.NoBody}
				if err := u.Answered(r, resp); (err == nil) == (part == tt.value.Secret) {
					t.Errorf("an answer with %q: %v", part, err)
				}
			}
		})
	}
}

// TestQueryKeepsTheRest sends what the proof binds, but for the parameter of the credential.
func TestQueryKeepsTheRest(t *testing.T) {
	form, err := credential.Query("key")
	u := use(t, form, err, credential.Value{Secret: secretToken})
	for query, want := range map[string]string{
		"": "", "a=1;b=2": "a=1;b=2&", "a=1;key=2;b=3&c": "a=1;b=3&c&", "key=1;b=2": "b=2&", "key": "", "a&&b": "a&&b&",
		"a;key=1": "a&", "b;k%65y=1&Key=2&c": "b;c&",
	} {
		r := &http.Request{URL: &url.URL{RawQuery: query}, Header: http.Header{}}
		check.Must(t, u.Apply(r, nil))
		if want += "key=" + secretToken; r.URL.RawQuery != want {
			t.Errorf("of %q, %q is sent and not %q", query, r.URL.RawQuery, want)
		}
	}
}

func TestFormsRefuse(t *testing.T) {
	for _, header := range []string{"", "X Token", "Host", "content-length", "Content-Type", "Connection",
		"Transfer-Encoding", "Idempotency-Key", "ActionProof-Capability", "X-HTTP-Method-Override",
		"X_Forwarded_Host"} {
		if _, err := credential.Header(header, "", echo.Auto); err == nil {
			t.Errorf("the header %q carries a credential", header)
		}
	}
	if _, err := credential.Header("X-Token", "Bearer \r\nX: ", echo.Auto); err == nil {
		t.Error("a prefix of two lines was taken")
	}
	for _, name := range []string{"", "a b", "a&b", "_method", "X-HTTP-Method"} {
		if _, err := credential.Query(name); err == nil {
			t.Errorf("the parameter %q carries a credential", name)
		}
	}
	for _, name := range []string{"", "a b", "a=b", "a;b"} {
		if _, err := credential.Cookie(name); err == nil {
			t.Errorf("the cookie %q carries a credential", name)
		}
	}
	for _, user := range []string{"a:b", "a\nb"} {
		if _, err := credential.Basic(user, echo.Auto); err == nil {
			t.Errorf("the user %q was taken", user)
		}
	}
	of := func(f credential.Form, err error) credential.Form { check.Must(t, err); return f }
	for _, tt := range []struct {
		form   credential.Form
		secret string
	}{
		{of(credential.Header("X-Token", "", echo.Auto)), "two\r\nlines"},
		{of(credential.Header("X-Token", "", echo.Auto)), "seven77"},
		{of(credential.Basic("", echo.Auto)), "without-a-user"},
		{of(credential.Query("key")), "seven77"},
		{of(credential.Cookie("a")), "with a space"}, {of(credential.Cookie("a")), "with;semicolon"},
	} {
		c, err := credential.New(fixed{Secret: tt.secret}, tt.form)
		check.Must(t, err)
		_, err = c.Resolve(t.Context(), nil)
		check.WantCode(t, err, "custody_unavailable")
		if c.Stats().Failures != 1 || strings.Contains(err.Error(), tt.secret) {
			t.Errorf("%T of %q: %+v, %v", tt.form, tt.secret, c.Stats(), err)
		}
	}
}

func TestNeverPrinted(t *testing.T) {
	form, err := credential.Header("Authorization", "Bearer ", echo.Auto)
	u := use(t, form, err, credential.Value{Secret: secretToken})
	for _, v := range []any{u, u.Credential, credential.Value{Secret: secretToken}} {
		raw, err := json.Marshal(v)
		check.Must(t, err)
		if s := fmt.Sprintf("%v %+v %#v %s %d", v, v, v, v, v) + string(raw); strings.Contains(s, "upstream") {
			t.Errorf("it prints as %s", s)
		}
	}
	if _, err := credential.New(nil, form); err == nil {
		t.Error("an empty credential was accepted")
	}
}
