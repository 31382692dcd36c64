package custody

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/test/e2e/kit"
)

func TestVaultBootstrap(t *testing.T) {
	t.Parallel()
	v, dir := kit.Vault(t), t.TempDir()
	token, out := filepath.Join(dir, "token"), filepath.Join(dir, "secrets")
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
		"agentStatement": evidence.PurposeStatement,
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
	for _, r := range bootstrap.Roles {
		if named[r.Process+" "+r.Purpose] != r.Key {
			t.Errorf("%+v: the example names the key %q", r, named[r.Process+" "+r.Purpose])
		}
	}
	if len(named) != len(bootstrap.Roles) {
		t.Errorf("the examples name %d keys: %v", len(named), named)
	}
	if r := bootstrap.Roots; len(r) != 2 || r[0].Purpose != evidence.PurposeSignerCertificate ||
		r[1].Purpose != evidence.PurposeDeploymentCertificate {
		t.Errorf("%+v", r)
	}
}
