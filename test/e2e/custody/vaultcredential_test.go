package custody

import (
	"crypto/rand"
	_ "embed"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// agentLooks prints everything that an agent's user can reach. The canary proves that it does.
//
//go:embed testdata/looks.sh
var agentLooks string

func (v *vaultRig) addCredentialRole(t *testing.T, path string) {
	t.Helper()
	policy := string(kit.Read(t, "../../../configs/vault/api_credential.hcl"))
	const name = "mediator-api_credential"
	const role = "auth/approle/role/" + name
	v.vault.Write(t, "sys/policies/acl/"+name,
		map[string]any{"policy": strings.Replace(policy, "kv/data/github", path, 1)})
	v.vault.Write(t, role, map[string]any{"token_policies": name, "token_no_default_policy": true, "token_ttl": "1h"})
	id, err := v.vault.Client(t).Logical().ReadWithContext(t.Context(), role+"/role-id")
	check.Must(t, err)
	wrapping := v.vault.Client(t)
	wrapping.SetWrappingLookupFunc(func(string, string) string { return "1h" })
	secret, err := wrapping.Logical().WriteWithContext(t.Context(), role+"/secret-id", nil)
	check.Must(t, err)
	kit.Write(t, v.auth+"/api_credential.role-id", id.Data["role_id"].(string))
	kit.Write(t, v.auth+"/api_credential.secret-id", secret.WrapInfo.Token)
}

func TestVaultCredential(t *testing.T) {
	t.Parallel()
	kit.NeedRoot(t)
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
	kit.OpenTo(t, v.Dir) // closed as they are made, the folders would hide what is below
	run := func() string {
		t.Helper()
		cmd := v.RunCommand(t, v.Event(t), nil, "sh", "-c", agentLooks, "sh", v.Dir, v.Plain())
		out, err := cmd.CombinedOutput()
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
		logs += v.Log(t, name)
	}
	posts := kit.Run(t, "posts", "list", "--json", "--admin", v.Stack.Admin())
	for where, text := range map[string]string{"the agent": seen, "the logs": logs, "the record": posts} {
		for _, s := range []string{old, secret, v.vault.Token} {
			if strings.Contains(text, s) {
				t.Errorf("%s: a secret is seen", where)
			}
		}
	}
}

func TestVaultBootstrap(t *testing.T) {
	t.Parallel()
	v, dir := kit.Vault(t), t.TempDir()
	token, out := dir+"/token", dir+"/secrets"
	kit.Write(t, token, v.Token+"\n")
	command := func(want string, args ...string) {
		t.Helper()
		kit.Mediator(t, append(args, "--address", v.Address, "--ca", v.CAFile, "--token-file", token, "--out", out)...).Done(
			want)
	}
	command("transit/keys/runtime-key: made\n", "vault", "bootstrap", "--apply")
	command("transit/keys/runtime-key: is there\n", "vault", "bootstrap", "--apply")
	command("policy_decision.secret-id: written, to be unwrapped within 1h0m0s\n", "vault", "bootstrap", "--deliver",
		"control")
	command(`"did": "is there"`, "vault", "bootstrap", "--apply", "--json")
	for _, policy := range bootstrap.Roles {
		text, err := configs.VaultPolicy(policy.Purpose)
		is, err2 := v.Client(t).Sys().GetPolicy("mediator-" + policy.Purpose)
		if err != nil || err2 != nil || is != text {
			t.Errorf("%s is not as in configs/vault: %s, %v, %v", policy.Purpose, is, err, err2)
		}
	}
}

func TestVaultRoles(t *testing.T) {
	t.Parallel()
	purposes := map[string]string{
		"origin": evidence.PurposeTriggerOriginProof, "receipt": evidence.PurposeTriggerReceipt,
		"decision": evidence.PurposePolicyDecision, "grant": evidence.PurposeActionGrant,
		"runtime": evidence.PurposeRuntimeAttestation, "session": evidence.PurposeAgentSession,
		"requestProof":       evidence.PurposeRequestProof,
		"interactionReceipt": evidence.PurposeInteraction, "appraiser": evidence.PurposeAppraiser,
		"agentStatement": evidence.PurposeStatement, "webBotAuth": evidence.PurposeWebBotAuth,
	}
	files := map[string]string{"trigger": "trigger.yaml", "control": "control.yaml", "serve": "mediator.yaml",
		"reputation": "reputation.yaml"}
	named := make(map[string]string) // "process purpose key"
	for process, file := range files {
		raw := kit.Read(t, "../../../configs/"+file)
		for line := range strings.Lines(string(raw)) {
			name, rest, ok := strings.Cut(strings.TrimLeft(line, "# "), ":") // one is in a comment: few deployments use it
			if key, isKey := strings.CutPrefix(strings.TrimSpace(rest), "{key: "); ok && isKey {
				key, _, _ = strings.Cut(key, ",")
				named[process+" "+purposes[name]] = key
			}
		}
	}
	roles := append(slices.Clone(bootstrap.Roles), bootstrap.BotAuth)
	for _, r := range roles {
		if named[r.Process+" "+r.Purpose] != r.Key {
			t.Errorf("%+v: the example names the key %q", r, named[r.Process+" "+r.Purpose])
		}
	}
	if len(named) != len(roles) {
		t.Errorf("the examples name %d keys: %v", len(named), named)
	}
	if r := bootstrap.Roots; len(r) != 2 || r[0].Purpose != evidence.PurposeSignerCertificate ||
		r[1].Purpose != evidence.PurposeDeploymentCertificate {
		t.Errorf("%+v", r)
	}
}
