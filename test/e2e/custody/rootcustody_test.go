package custody

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/vaulttest"
)

// vaultTeam is a security team with root keys in Vault, which registry.yaml and auditor.yaml name.
func vaultTeam(t *testing.T) (kit.Team, *vaulttest.Server) {
	t.Helper()
	full.Only(t, "a Vault server")
	v, d := vaulttest.New(t), kit.Team{Dir: t.TempDir()}
	d.Bundle = d.At("trust.json")
	put := func(name, content string) {
		kit.Write(t, d.At(name), content)
	}
	put("admin.token", v.Token)
	if status, _, said := kit.Invoke(t, "vault", "bootstrap", "--apply", "--roots", "--address", v.Address, "--ca",
		v.CAFile, "--token-file", d.At("admin.token"),
		"--out", d.At("secrets")); status != program.Done {
		t.Fatal(said)
	}
	for _, r := range bootstrap.Roots {
		text, err := configs.VaultPolicy(r.Purpose)
		check.Must(t, err)
		put(r.Purpose+".token", v.TokenFor(t, "mediator-"+r.Purpose, text, time.Hour))
		put(r.Process+".yaml", fmt.Sprintf(`purpose: %s
key: %s
custody:
  type: vault
  vault: {address: %q, ca: %q, keys: [registry, auditor], auth: {tokenFile: "{role}.token"}}
`, r.Purpose, r.Key, v.Address, v.CAFile))
		if status, out, said := kit.Invoke(t, "keys", "root", "--root-key", filepath.Join(d.Dir, r.Process+".yaml"), "--name",
			r.Process, "--out", d.Dir); status != program.Done || !strings.Contains(out, "wrote "+r.Key+":v1") {
			t.Fatal(out, said)
		}
	}
	return d, v
}

// TestRootKeysInVault certifies keys and a deployment with root keys that never leave Vault.
func TestRootKeysInVault(t *testing.T) {
	t.Parallel()
	d, v := vaultTeam(t)
	at := func(name string) string { return d.At(name) }
	do := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		status, stdout, stderr := kit.Invoke(t, args...)
		if status != want {
			t.Fatalf("%v: %d %s%s", args, status, stdout, stderr)
		}
		return stdout, stderr
	}
	if out, _ := do(program.Done, "config", "check", at("registry.yaml"), at("auditor.yaml")); strings.Count(out,
		"a correct root key") != 2 {
		t.Error(out)
	}
	endpoint := kit.Publish(t, "control", kit.Grant(kit.MemoryKey(t, "grant-key")))
	certify := []string{"keys", "certify", "--registry-key", at("registry.yaml"), "--audience", "posting-api", "--bundle",
		d.Bundle, "--from", endpoint}
	do(program.Done, certify...)
	d.WantKeys(t, "grant-key:v1")
	// A file says what its key is for.
	fresh := []string{"keys", "certify", "--registry-key", at("auditor.yaml"), "--audience", "posting-api", "--bundle",
		at("fresh.json"), "--from", endpoint}
	if _, said := do(program.Refused, fresh...); !strings.Contains(said,
		"auditor.yaml names a root key of the purpose deployment_certificate, and not signer_certificate") {
		t.Error(said)
	}
	if _, said := do(program.Refused, "deployment", "certify", "../../../configs/manifest.yaml", "--auditor-key",
		at("registry.yaml"), "--audience", "posting-api", "--bundle", at("fresh.json")); !strings.Contains(said,
		"and not deployment_certificate") {
		t.Error(said)
	}
	do(program.Done, "keys", "revoke", "--registry-key", at("registry.yaml"), "--audience", "posting-api", "--bundle",
		d.Bundle, "--key", "grant-key:v1", "--reason", "a drill")
	do(program.Done, "deployment", "certify", "../../../configs/manifest.yaml", "--auditor-key", at("auditor.yaml"),
		"--audience", "posting-api", "--bundle", d.Bundle)
	do(program.Done, "verify", "../../../configs/manifest.yaml", "--auditor", at("auditor.jwk"), "--registry",
		at("registry.jwk"), "--bundle", d.Bundle)

	// One version is pinned: a rotation alone changes nothing.
	v.Write(t, "transit/keys/registry/rotate", nil)
	do(program.Done, certify...)
	d.WantKeys(t, "grant-key:v1")

	// A key that Vault would export signs nothing.
	v.Write(t, "transit/keys/registry/config", map[string]any{"exportable": true})
	if _, said := do(program.Refused, certify...); !strings.Contains(said,
		"it signs nothing: Vault says that the key registry can be exported. (custody_unavailable)") {
		t.Error(said)
	}
}

// TestRootKeyInAToken certifies a key with a registry key in a PKCS #11 token.
func TestRootKeyInAToken(t *testing.T) {
	d := kit.Team{Dir: t.TempDir()}
	d.Bundle = d.At("trust.json")
	held := d.At("registry.yaml")
	check.Must(t,
		os.WriteFile(held, []byte("purpose: signer_certificate\nkey: registry\n"+softToken(t, "registry")+"\n"), 0o600))
	endpoint := kit.Publish(t, "control", kit.Grant(kit.MemoryKey(t, "grant-key")))
	for _, args := range [][]string{
		{"keys", "root", "--root-key", held, "--name", "registry", "--out", d.Dir},
		{"keys", "certify", "--registry-key", held, "--audience", "posting-api", "--bundle", d.Bundle, "--from", endpoint},
	} {
		if status, _, said := kit.Invoke(t, args...); status != program.Done {
			t.Fatalf("%v: %s", args, said)
		}
	}
	d.WantKeys(t, "grant-key:v1")
}

func TestRootKeyFileRefused(t *testing.T) {
	t.Parallel()
	const vault = `custody: {type: vault, ` +
		`vault: {address: "https://127.0.0.1:1", keys: [registry], auth: {tokenFile: "{role}.token"}}}`
	for name, tt := range map[string]struct{ content, want string }{
		"no purpose":          {"key: registry\n" + vault, "purpose: is required"},
		"a process's purpose": {"purpose: action_grant\nkey: registry\n" + vault, `purpose: "action_grant" is none of`},
		"no key":              {"purpose: signer_certificate\n" + vault, "key: is required"},
		"a version below zero": {"purpose: signer_certificate\nkey: registry\nversion: -1\n" + vault,
			"version: must be a whole number"},
		"an unknown key": {"purpose: signer_certificate\nkey: registry\nkid: x\n" + vault, "kid"},
		"memory": {"purpose: signer_certificate\nkey: registry\ncustody: {type: memory}\n",
			"a root key outlives the command"},
		"no custody": {"purpose: signer_certificate\nkey: registry\n", "custody.type: is required"},
		"one token for all": {"purpose: signer_certificate\nkey: registry\n" + strings.ReplaceAll(vault, "{role}", "x"),
			"write {role} where they differ"},
	} {
		path := filepath.Join(t.TempDir(), "registry.yaml")
		kit.Write(t, path, tt.content)
		if status, _, said := kit.Invoke(t, "keys", "root", "--root-key", path, "--name", "registry", "--out",
			t.TempDir()); status != program.Refused || !strings.Contains(said, tt.want) {
			t.Errorf("%s: %d %s", name, status, said)
		}
	}
	if status, _, said := kit.Invoke(t, "keys", "root", "--root-key", "registry.key.jwk", "--name", "registry"); status !=
		program.Usage {
		t.Errorf("%d %s", status, said)
	}
}
