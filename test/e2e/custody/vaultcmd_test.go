package custody

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestVaultBootstrap applies a bootstrap twice from the command line.
func TestVaultBootstrap(t *testing.T) {
	t.Parallel()
	v, dir := kit.Vault(t), t.TempDir()
	token, out := filepath.Join(dir, "token"), filepath.Join(dir, "secrets")
	kit.Write(t, token, v.Token+"\n")
	args := []string{"vault", "bootstrap", "--apply", "--address", v.Address, "--ca", v.CAFile, "--token-file", token,
		"--out", out}
	for _, want := range []string{"transit/keys/runtime-key: made\n", "transit/keys/runtime-key: is there\n"} {
		kit.Mediator(t, args...).Done(want)
	}
	// One step delivers new secret ids for a process. All of them can be listed and pruned.
	at := []string{"--address", v.Address, "--ca", v.CAFile, "--token-file", token, "--json"}
	var done []bootstrap.Done
	command := func(into any, args ...string) {
		t.Helper()
		check.Must(t, json.Unmarshal([]byte(kit.Run(t, append(args, at...)...)), into))
	}
	command(&done, "vault", "bootstrap", "--deliver", "control", "--out", out)
	if len(done) != 2 || done[0].What != filepath.Join(out, "policy_decision.secret-id") ||
		done[0].Did != "written, to be unwrapped within 1h0m0s" {
		t.Errorf("it did %+v", done)
	}
	var ids []bootstrap.SecretID
	command(&ids, "vault", "bootstrap", "--secret-ids")
	roles := len(bootstrap.Roles)
	if len(ids) != roles+2 {
		t.Errorf("there are %+v", ids)
	}
	command(&ids, "vault", "bootstrap", "--secret-ids", "--prune-older-than", "1ns")
	if i := slices.IndexFunc(ids, func(id bootstrap.SecretID) bool {
		return id.Pruned
	}); len(ids) != roles+2 || i < 1 || ids[i].Process != "control" || ids[i-1].Pruned {
		t.Errorf("there are %+v", ids)
	}
	command(&ids, "vault", "bootstrap", "--secret-ids")
	if len(ids) != roles {
		t.Errorf("there are %+v", ids)
	}
	command(&done, "vault", "bootstrap", "--apply", "--out", out)
	if len(done) < 20 || done[0] != (bootstrap.Done{What: "transit", Did: "is there"}) {
		t.Errorf("it did %+v", done)
	}
	for _, policy := range bootstrap.Roles {
		text, err := configs.VaultPolicy(policy.Purpose)
		is, err2 := v.Client(t).Sys().GetPolicy("mediator-" + policy.Purpose)
		if err != nil || err2 != nil || is != text {
			t.Errorf("%s is not as in configs/vault: %s, %v, %v", policy.Purpose, is, err, err2)
		}
	}
}

// TestVaultRoles compares a bootstrap with the example configurations and the purposes of keys.
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
