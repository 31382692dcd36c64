package clients

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/e2e/kit"
)

func TestClients(t *testing.T) {
	t.Parallel()
	r := kit.NewClientsRig(t)
	base := "https://" + r.Plain()
	repo, comments := base+"/repos/acme/site", base+kit.Comments
	milestones := repo + "/milestones"
	const body = kit.Comment
	inCurl, inNode := []string{kit.Need(t, "curl"), "-sS", "-w", " %{http_code}"}, kit.NodeJS(t)
	curl := func(args ...string) []string { return kit.With(inCurl, args...) }
	asJSON := func(args ...string) []string { return kit.With(curl("-H", "Content-Type: application/json"), args...) }
	node := func(script string, args ...string) []string {
		return append(kit.With(inNode, kit.Scripts+"node/"+script), args...)
	}
	python := func(args ...string) []string { // Debian's own, which Debian's packages are for
		return append([]string{"/usr/bin/python3", kit.Scripts + "client.py"}, args...)
	}
	for _, tt := range []struct {
		name string
		args []string
		want string // what the output ends with, or holds
	}{
		{"curl reads", curl(repo), "200"},
		{"curl reads by HTTP/1.1", curl("--http1.1", repo), "200"},
		{"curl posts", asJSON("-d", body, comments), "201"},
		{"curl posts with Expect", asJSON("-H", "Expect: 100-continue", "-d", body, comments), "201"},
		{"curl posts chunked", asJSON("-H", "Transfer-Encoding: chunked", "-d", body, comments), "201"},
		{"curl is refused", asJSON("-d", body, milestones), `"code":"action_unmatched"`},
		{"curl is refused a form", curl("-d", "a=b", comments), `"code":"content_malformed"`},
		{"curl is refused another spelling", curl("--path-as-is", "-d", body, repo+"/issues/7//comments"),
			`"code":"request_malformed"`},
		{"curl is refused a query", asJSON("-d", body, comments+"?x=1"), `"code":"override_refused"`},
		{"curl is refused a duplicate key", asJSON("-d", `{"a":1,"a":2}`, comments), `"code":"content_malformed"`},
		{"curl asks for its event", curl("http://mediator.internal/v1/event"), `"kind":"source_event"`},
		{"requests reads", python("requests", "GET", repo), "200"},
		{"requests posts", python("requests", "POST", comments, body), "201"},
		{"requests is refused", python("requests", "POST", milestones, body), "403 action_unmatched"},
		{"httpx reads", python("httpx", "GET", repo), "200"},
		{"httpx posts", python("httpx", "POST", comments, body), "201"},
		{"httpx is refused", python("httpx", "POST", milestones, body), "403 action_unmatched"},
		{"fetch reads", node("fetch.mjs", "GET", repo), "200"},
		{"fetch posts", node("fetch.mjs", "POST", comments, body), "201"},
		{"fetch is refused", node("fetch.mjs", "POST", milestones, body), "403 action_unmatched"},
		{"Octokit reads", node("octokit.mjs", "read", base), "200"},
		{"Octokit posts", node("octokit.mjs", "comment", base), "201"},
		{"Octokit is refused", node("octokit.mjs", "milestone", base), "403 action_unmatched"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := r.Posts.Load()
			out, err := r.AsAgent(t, tt.args...)
			if err != nil || !strings.Contains(out, tt.want) {
				t.Fatalf("got %q, %v; want %q", out, err, tt.want)
			}
			wantPosts := int64(0)
			if tt.want == "201" {
				wantPosts = 1
			}
			if got := r.Posts.Load() - before; got != wantPosts {
				t.Errorf("%d posts reached the upstream, not %d", got, wantPosts)
			}
			if strings.Contains(out, trial.Token) {
				t.Error("the agent saw the API's credential")
			}
		})
	}
	t.Run("git reads", func(t *testing.T) {
		out, err := r.AsAgent(t, "sh", "-c", `cd "$TMPDIR" && git clone -q "$0" site && git -C site log --format=%s`,
			base+"/git/site.git")
		if err != nil || out != "first" {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("git may not push", func(t *testing.T) {
		_, err := r.AsAgent(t, "sh", "-c", `cd "$TMPDIR" && git clone -q "$0" site && git -C site push -q "$0" main:other`,
			base+"/git/site.git")
		if err == nil || !strings.Contains(err.Error(), "403") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("each call left one record", func(t *testing.T) {
		posts := r.Records(t, "limit=1000")
		forwarded := 0
		for _, p := range posts {
			r.WantAssurance(t, p)
			if p.State == ledger.StateForwarding {
				t.Errorf("%s has no outcome", p.ID)
			}
			if p.Flow == "post" && p.State == ledger.StateForwarded {
				forwarded++
			}
		}
		if int64(forwarded) != r.Posts.Load() {
			t.Errorf("%d posts are recorded as forwarded; %d reached the upstream", forwarded, r.Posts.Load())
		}
	})
}

func TestBasicSecret(t *testing.T) {
	t.Parallel()
	const user, password = "user-0123456789", "password-0123456789"
	r := kit.NewRig(t, kit.Plain, func(r *kit.Rig) (http.Handler, string) {
		kit.Write(t, r.In("secrets/basic"), base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
		rules, _, _ := strings.Cut(kit.ClientRules, "  - name: reads\n")
		for _, half := range []string{"auto", "password", "user", "both"} {
			rules += fmt.Sprintf(`  - name: %s
    match: {url: "https://PLAIN/%[1]s/{asked}", methods: [GET]}
    credential: {prefix: "Basic ", file: secrets/basic, basicSecret: %[1]s}
`, half)
		}
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			u, p, _ := req.BasicAuth()
			fmt.Fprintln(w, map[string]string{"user": u, "password": p}[filepath.Base(req.URL.Path)])
		}), rules + kit.Upstream
	})
	stdout, stderr, err := r.StartRun(t, nil, nil, `for half in auto password user both; do for asked in user password; do
echo "$half: $(curl -s "https://$0/$half/$asked")"; done; done`, r.Plain())
	want := "auto: " + user + "\nauto: \npassword: " + user + "\npassword: \nuser: \nuser: " + password +
		"\nboth: \nboth: \n"
	if err != nil || stdout != want {
		t.Errorf("got %s, want %s: %v %s", stdout, want, err, stderr)
	}
}

func TestMain(m *testing.M) { kit.Main(m, nil) }
