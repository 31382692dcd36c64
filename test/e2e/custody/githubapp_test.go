package custody

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/githubtest"
)

const appRules = `
actions:
  - name: file
    match: {url: "https://PLAIN/repos/acme/site/issues/{number}/comments", methods: [POST]}
    subject: agent:worker-1
    action: create_comment
    credential:
      githubApp: {app: Iv23file, installation: 42, keyFile: secrets/app.pem, apiURL: "https://PLAIN/api/v3",
        repositories: [site], permissions: {issues: write}}
  - name: vault
    match: {url: "https://PLAIN/repos/acme/docs/issues/{number}/comments", methods: [POST]}
    subject: agent:worker-1
    action: create_comment
    credential:
      githubApp: &app {app: Iv23vault, installation: 42, vaultKey: github-app, apiURL: "https://PLAIN/api/v3",
        repositories: [docs], permissions: {issues: write}}
egress:
  - name: reads
    match: {url: "https://PLAIN/repos/**", methods: [GET]}
    credential: {githubApp: *app}
` + kit.Upstream

// TestGitHubApp posts with tokens of GitHub Apps, whose keys are in a file and in Vault. A token is for one repository,
// no answer repeats it, and a post without one is refused.
func TestGitHubApp(t *testing.T) {
	t.Parallel()
	v, github := newVault(t), githubtest.New()
	v.addCredentialRole(t, "kv/data/none")
	v.vault.Write(t, "transit/keys/github-app", map[string]any{"type": "rsa-2048"})
	github.Keys["Iv23vault"] = v.publicRSA(t, "github-app")
	posts := make(map[string]int)
	v.Rig = kit.PrepareRig(t, kit.Plain, func(*kit.Rig) (http.Handler, string) {
		mux := http.NewServeMux()
		mux.Handle("/api/v3/app/", github)
		mux.HandleFunc("/repos/acme/{repository}/", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			scope := github.Given(r)
			if len(scope.Repositories) != 1 || scope.Repositories[0] != r.PathValue("repository") ||
				scope.Permissions["issues"] != "write" {
				http.Error(w, "Not Found", http.StatusNotFound)
				return
			}
			posts[scope.App]++
			fmt.Fprint(w, "the token is ", r.Header.Get("Authorization"))
		})
		return mux, appRules
	}, kit.ManyPosts, v.config)
	kit.Write(t, v.In("secrets/app.pem"), github.AddApp(t, "Iv23file"))
	v.Start(t)
	agent := v.OpenAgent(t)
	docs := strings.Replace(kit.Comments, "site", "docs", 1)
	for range 2 { // the answer ends where it repeats the token
		agent.Post()
		agent.Call(http.MethodPost, docs, kit.Comment)
	}
	agent.Call(http.MethodGet, "/repos/acme/docs/echo", "")
	if posts["Iv23file"] != 2 || posts["Iv23vault"] != 3 || github.Asked() != 2 {
		t.Fatalf("posted %v, with %d tokens", posts, github.Asked())
	}
	for rule, want := range map[string]int{"file": 2, "vault": 2, "reads": 1} {
		if withheld := v.RecordsOf(t, rule, "answer_withheld"); len(withheld) != want {
			t.Errorf("%s: %.2000s", rule, fmt.Sprintf("%+v", withheld))
		}
	}
	metrics := kit.Metrics(t, v.Stack.Socket("serve"))
	for _, rule := range []string{"file", "vault"} {
		if !strings.Contains(metrics, fmt.Sprintf(`mediator_credential_until_seconds{rule=%q} 1`, rule)) {
			t.Errorf("no end of the token of %s in the metrics", rule)
		}
	}

	v.StopProcess(t, "serve")
	v.redeliver(t)
	v.addCredentialRole(t, "kv/data/none")
	delete(github.Keys, "Iv23file")
	v.StartProcess(t, "serve")
	agent = v.OpenAgent(t)
	if o := agent.Post(); o.Code != "custody_unavailable" || posts["Iv23file"] != 2 {
		t.Errorf("without a token: %+v", o)
	}
	failed := v.RecordsOf(t, "file", "custody_unavailable")
	if len(failed) != 1 || failed[0].State != ledger.StateRefused || failed[0].Step != "custody" ||
		!strings.Contains(failed[0].Reason, "refused with 401: the App's client ID, its key") {
		t.Errorf("%.2000s", fmt.Sprintf("%+v", failed))
	}
	for where, text := range map[string]string{"the log": v.Log(t, "serve"), "the metrics": metrics,
		"the record": fmt.Sprint(v.Records(t, "limit=1000"))} {
		if strings.Contains(text, "ghs_") || strings.Contains(text, "eyJhbGciOiJSUzI1NiI") {
			t.Errorf("%s: a secret is seen", where)
		}
	}
}

// publicRSA returns the public key of an RSA key in Vault.
func (v *vaultRig) publicRSA(t *testing.T, name string) *rsa.PublicKey {
	t.Helper()
	read, err := v.vault.Client(t).Logical().ReadWithContext(t.Context(), "transit/keys/"+name)
	check.Must(t, err)
	text, _ := read.Data["keys"].(map[string]any)["1"].(map[string]any)["public_key"].(string)
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		t.Fatalf("Vault says %v", read.Data)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	check.Must(t, err)
	return key.(*rsa.PublicKey)
}
