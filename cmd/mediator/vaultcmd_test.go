package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/test/vaulttest"
)

// TestVaultBootstrap carries a bootstrap out from the command line, twice.
func TestVaultBootstrap(t *testing.T) {
	v, dir := vaulttest.New(t), t.TempDir()
	token, out := filepath.Join(dir, "token"), filepath.Join(dir, "secrets")
	if err := os.WriteFile(token, []byte(v.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"vault", "bootstrap", "--apply", "--address", v.Address, "--ca", v.CAFile, "--token-file", token, "--out", out}
	for _, want := range []string{"transit/keys/runtime-key: made\n", "transit/keys/runtime-key: is there\n"} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), args, nil, &stdout, &stderr); status != exitDone || !strings.Contains(stdout.String(), want) {
			t.Fatalf("%d, %s%s", status, &stdout, &stderr)
		}
	}
	for _, policy := range bootstrap.Roles {
		text, err := configs.VaultPolicy(policy.Purpose)
		is, err2 := v.Client(t).Sys().GetPolicy("mediator-" + policy.Purpose)
		if err != nil || err2 != nil || is != text {
			t.Errorf("%s is not as in configs/vault: %s, %v, %v", policy.Purpose, is, err, err2)
		}
	}
}

// TestVaultRoles compares what a bootstrap makes with the example configurations and with the purposes of keys.
func TestVaultRoles(t *testing.T) {
	purposes := map[string]string{
		"origin": evidence.PurposeTriggerOriginProof, "receipt": evidence.PurposeTriggerReceipt, "decision": evidence.PurposePolicyDecision, "grant": evidence.PurposeActionGrant,
		"runtime": evidence.PurposeRuntimeAttestation, "session": evidence.PurposeAgentSession, "requestProof": evidence.PurposeRequestProof,
		"interactionReceipt": evidence.PurposeInteraction,
	}
	files := map[string]string{"trigger": "trigger.yaml", "control": "control.yaml", "serve": "mediator.yaml"}
	named := make(map[string]string) // "process purpose key"
	for process, file := range files {
		raw, err := os.ReadFile("../../configs/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			name, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
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
	if r := bootstrap.Roots; len(r) != 2 || r[0].Purpose != evidence.PurposeSignerCertificate || r[1].Purpose != evidence.PurposeDeploymentCertificate {
		t.Errorf("%+v", r)
	}
}
