package custody

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/full"
)

// agentLooks prints everything that an agent's user can reach: its environment, /proc of any process, every file below
// the deployment's folder, and the answers of the proxy and mediator.internal. The canary proves that it does.
const agentLooks = `
export CANARY=canary-$$-seen
env
for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/maps /proc/[0-9]*/mem; do cat "$f"; done 2>/dev/null
find "$1" -type f -exec cat {} + 2>/dev/null
find "$1" -type s 2>/dev/null
curl -sv -H 'Content-Type: application/json' -d '{"body":"x"}' "https://$2/posts" 2>&1
curl -sv -H 'Content-Type: application/json' -H 'Authorization: mine' -d '{"body":"x"}' "https://$2/posts?a=b" 2>&1
curl -sv "https://$2/read" 2>&1
for path in v1/event v1/event/next v1/posts v1/roles v1/looks metrics debug/pprof/cmdline debug/pprof/heap
do curl -sv -m 2 "http://mediator.internal/$path" 2>&1; done
`

// addCredentialRole makes the role that reads API credentials, as docs/operations/keys.md does it.
func (v *vaultRig) addCredentialRole(t *testing.T, path string) {
	t.Helper()
	policy := kit.Read(t, "../../../configs/vault/api_credential.hcl")
	const role = "auth/approle/role/mediator-" + "api_credential"
	v.vault.Write(t, "sys/policies/acl/mediator-"+"api_credential",
		map[string]any{"policy": strings.Replace(string(policy), "kv/data/github", path, 1)})
	v.vault.Write(t, role,
		map[string]any{"token_policies": "mediator-" + "api_credential", "token_no_default_policy": true, "token_ttl": "1h"})
	id, err := v.vault.Client(t).Logical().ReadWithContext(t.Context(), role+"/role-id")
	check.Must(t, err)
	wrapping := v.vault.Client(t)
	wrapping.SetWrappingLookupFunc(func(string, string) string { return "1h" })
	secret, err := wrapping.Logical().WriteWithContext(t.Context(), role+"/secret-id", nil)
	check.Must(t, err)
	for kind, content := range map[string]string{".role-id": id.Data["role_id"].(string),
		".secret-id": secret.WrapInfo.Token} {
		kit.Write(t, filepath.Join(v.auth, "api_credential"+kind), content)
	}
}

// TestVaultCredential: a credential from Vault reaches the upstream, and never the agent. It is read again after the
// upstream has refused it.
func TestVaultCredential(t *testing.T) {
	t.Parallel()
	full.Only(t, "root")
	if os.Geteuid() != 0 {
		t.Fatal("only root can start an agent as a user of its own: run the tests as root")
	}
	old, secret := "old-"+rand.Text(), "new-"+rand.Text()
	v := newVault(t)
	v.vault.Mount(t, "kv", "kv", map[string]string{"version": "2"})
	put := func(value string) {
		v.vault.Write(t, "kv/data/post-plain", map[string]any{"data": map[string]any{"token": value}})
	}
	put(old)
	v.addCredentialRole(t, "kv/data/post-plain")
	api := func(*kit.Rig) (http.Handler, string) {
		mux := http.NewServeMux()
		answer := func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+secret {
				http.Error(w, "who is it?", http.StatusUnauthorized)
				return
			}
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, "welcome")
		}
		mux.HandleFunc("POST /posts", answer)
		mux.HandleFunc("GET /read", answer)
		return mux, `
actions:
  - name: post-plain
    match: {url: "https://PLAIN/posts", methods: [POST]}
    subject: agent:worker-1
    action: create_post
    credential: &api {prefix: "Bearer ", vault: {path: "kv/data/post-plain", field: token}}
egress:
  - name: read
    match: {url: "https://PLAIN/read", methods: [GET]}
    credential: *api
` + kit.Upstream
	}
	v.Rig = kit.NewRig(t, kit.Plain, api, kit.ManyPosts, v.config)
	// closed to others as they are made, which would hide what is below
	for _, dir := range []string{v.Dir, filepath.Dir(v.Dir)} {
		check.Must(t, os.Chmod(dir, 0o711))
	}
	run := func() string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
		defer cancel()
		event, err := v.DeliverRelease(ctx)
		check.Must(t, err)
		out, err := exec.CommandContext(ctx, "/proc/self/exe", "run", "--admin", v.Stack.Admin(), "--event", event, "--",
			"sh", "-c", agentLooks, "sh", v.Dir, v.Plain()).CombinedOutput()
		check.Must(t, err)
		return string(out)
	}
	if seen := run(); strings.Contains(seen, "welcome") || !strings.Contains(seen, "who is it?") {
		t.Fatalf("the upstream takes the old credential, or is not reached:\n%s", seen)
	}
	put(secret)
	seen := ""
	kit.Until(t, "the new credential", func() bool {
		seen = run()
		return strings.Contains(seen, "welcome")
	})
	if !strings.Contains(seen, "-seen") || !strings.Contains(seen, "canary-") {
		t.Error("the agent does not see its own environment")
	}
	logs := ""
	for _, name := range []string{"serve", "trigger", "control", "registry"} {
		raw := kit.Read(t, filepath.Join(v.Dir, name+".log"))
		logs += string(raw)
	}
	_, posts, _ := kit.Invoke(t, "posts", "list", "--json", "--admin", v.Stack.Admin())
	for where, text := range map[string]string{"the agent": seen, "the logs": logs, "the record": posts} {
		for _, s := range []string{old, secret, v.vault.Token} {
			if strings.Contains(text, s) {
				t.Errorf("%s: a secret is seen", where)
			}
		}
	}
}
