package credential_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/proxy/credential"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/githubtest"
)

func newGitHub(t *testing.T) (*githubtest.Server, credential.GitHubAppOptions) {
	g := githubtest.New()
	s := httptest.NewTLSServer(g)
	t.Cleanup(s.Close)
	return g, credential.GitHubAppOptions{App: "Iv23app", Installation: 42, KeyFile: secretFile(t, g.AddApp(t, "Iv23app")),
		Repositories: []string{"site"}, Permissions: map[string]string{"issues": "write"}, APIURL: s.URL + "/api/v3",
		HTTP: s.Client().Transport, Now: time.Now}
}

// TestGitHubApp gets a token for an hour, uses it for 54 minutes, and bears a clock that is a minute off.
func TestGitHubApp(t *testing.T) {
	for _, skew := range []time.Duration{-59 * time.Second, 0, 59 * time.Second} {
		g, o := newGitHub(t)
		now := time.Now()
		o.Now = func() time.Time { return now.Add(skew) }
		g.Now = func() time.Time { return now }
		source := credential.GitHubApp(o)
		v := wantValue(t, source, "ghs_of-Iv23app-1")
		if v.ID != "Iv23app/42" || v.End.Sub(now).Round(time.Minute) != time.Hour {
			t.Errorf("a token of %s to %s", v.ID, v.End)
		}
		now = now.Add(53 * time.Minute)
		wantValue(t, source, "ghs_of-Iv23app-1")
		now = now.Add(2 * time.Minute)
		wantValue(t, source, "ghs_of-Iv23app-2")
	}
}

func TestGitHubAppScope(t *testing.T) {
	g, o := newGitHub(t)
	o.Repositories, o.Permissions = []string{"Site", "docs"}, nil
	wantValue(t, credential.GitHubApp(o), "ghs_of-Iv23app-1")
	o.Permissions = map[string]string{"contents": "read"}
	for name, tt := range map[string]struct {
		repositories []string
		permissions  map[string]string
		want         string
	}{
		"as asked":          {[]string{"site"}, map[string]string{"contents": "read", "metadata": "read"}, ""},
		"a repository more": {[]string{"site", "keys"}, nil, `gave a token for the repository "keys" too`},
		"no list":           {nil, nil, "gave a token that is not for the repositories alone"},
		"no permissions":    {[]string{"site"}, nil, "gave a token without saying its permissions"},
		"a permission more": {[]string{"site"}, map[string]string{"issues": "read"},
			`permission "issues" ("read") too`},
		"a permission's level": {[]string{"site"}, map[string]string{"contents": "write"}, `"contents" ("write") too`},
	} {
		g.AnswerBy(func(w http.ResponseWriter) {
			githubtest.Give(w, "ghs_more", time.Now().Add(time.Hour), tt.repositories, tt.permissions)
		})
		if _, err := credential.GitHubApp(o).Current(t.Context()); tt.want == "" {
			check.Must(t, err)
		} else if check.CodeOf(err) != "custody_unavailable" || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGitHubAppFails names what GitHub refuses, and shows neither the JWT nor the key.
func TestGitHubAppFails(t *testing.T) {
	answers := func(status int, kind, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, tt := range map[string]struct {
		change func(g *githubtest.Server, o *credential.GitHubAppOptions)
		want   string
	}{
		"another App": {func(_ *githubtest.Server, o *credential.GitHubAppOptions) { o.App = "Iv23other" },
			"refused with 401: the App's client ID, its key or a clock is wrong"},
		"another key": {func(g *githubtest.Server, _ *credential.GitHubAppOptions) {
			key, err := rsa.GenerateKey(rand.Reader, 2048)
			check.Must(t, err)
			g.Keys["Iv23app"] = &key.PublicKey
		}, "refused with 401"},
		"a slow clock": {func(_ *githubtest.Server, o *credential.GitHubAppOptions) {
			o.Now = func() time.Time { return time.Now().Add(-15 * time.Minute) }
		}, "refused with 401: the App's client ID, its key or a clock is wrong; its clock is 1"},
		"a fast clock": {func(_ *githubtest.Server, o *credential.GitHubAppOptions) {
			o.Now = func() time.Time { return time.Now().Add(5 * time.Minute) }
		}, " behind ours"},
		"a suspended installation": {func(_ *githubtest.Server, o *credential.GitHubAppOptions) { o.Installation = 43 },
			"refused with 403: the installation is suspended"},
		"another installation": {func(_ *githubtest.Server, o *credential.GitHubAppOptions) { o.Installation = 44 },
			"installations/44/access_tokens refused with 404: the App has no such installation"},
		"an absent repository": {func(_ *githubtest.Server, o *credential.GitHubAppOptions) {
			o.Repositories = []string{"absent"}
		},
			"refused with 422: the installation lacks a repository or a permission"},
		"a failure": {func(g *githubtest.Server, _ *credential.GitHubAppOptions) {
			g.AnswerBy(answers(500, "application/json", `{}`))
		}, "refused with 500"},
		"10 MB": {func(g *githubtest.Server, _ *credential.GitHubAppOptions) {
			g.AnswerBy(answers(201, "application/json", `{"token": "`+strings.Repeat("x", 10<<20)+`"}`))
		}, "answered with more than 4194304 bytes"},
		"HTML": {func(g *githubtest.Server, _ *credential.GitHubAppOptions) {
			g.AnswerBy(answers(200, "text/html", "<html>Sign in</html>"))
		}, `answered with 200 and "text/html" instead of JSON`},
		"a redirect": {func(g *githubtest.Server, _ *credential.GitHubAppOptions) {
			g.AnswerBy(func(w http.ResponseWriter) {
				w.Header().Set("Location", "https://elsewhere.example/")
				w.WriteHeader(http.StatusTemporaryRedirect)
			})
		}, "answered with a redirect (307), which is not followed"},
		"a token for all repositories": {func(g *githubtest.Server, _ *credential.GitHubAppOptions) {
			g.AnswerBy(answers(201, "application/json", `{"token": "x", "expires_at": "2999-01-01T00:00:00Z",
				"repository_selection": "all", "repositories": [{"name": "site"}]}`))
		}, "gave a token that is not for the repositories alone"},
		"nothing": {func(g *githubtest.Server, _ *credential.GitHubAppOptions) {
			g.AnswerBy(answers(201, "application/json", ""))
		}, "no content"},
		"no token": {func(g *githubtest.Server, _ *credential.GitHubAppOptions) {
			g.AnswerBy(answers(201, "application/json", `{"expires_at": "2999-01-01T00:00:00Z"}`))
		}, "without a token that lasts"},
		"a token that has ended": {func(g *githubtest.Server, _ *credential.GitHubAppOptions) {
			g.AnswerBy(answers(201, "application/json", `{"token": "x", "expires_at": "2020-01-01T00:00:00Z"}`))
		}, "without a token that lasts"},
		"a broken connection": {func(g *githubtest.Server, _ *credential.GitHubAppOptions) {
			g.AnswerBy(func(http.ResponseWriter) { panic(http.ErrAbortHandler) })
		}, "does not answer"},
		"no key": {func(_ *githubtest.Server, o *credential.GitHubAppOptions) { o.KeyFile += "-absent" },
			"cannot be read"},
		"another text": {func(_ *githubtest.Server, o *credential.GitHubAppOptions) {
			o.KeyFile = secretFile(t, "text")
		}, "not in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			g, o := newGitHub(t)
			tt.change(g, &o)
			source := credential.GitHubApp(o)
			_, err := source.Current(t.Context())
			check.WantCode(t, err, "custody_unavailable", tt.want)
			_, again := source.Current(t.Context())
			if again == nil || g.Asked() > 1 || strings.Contains(err.Error(), "eyJ") {
				t.Errorf("asked %d times: %v", g.Asked(), err)
			}
		})
	}
}

// TestGitHubAppKeyElsewhere signs by a function, whose failure is the error.
func TestGitHubAppKeyElsewhere(t *testing.T) {
	_, o := newGitHub(t)
	o.Sign = func(context.Context, []byte) ([]byte, error) { return nil, custody.Unavailable(nil, "Vault is sealed") }
	_, err := credential.GitHubApp(o).Current(t.Context())
	check.WantCode(t, err, "custody_unavailable", "Vault is sealed")
}
