package custody

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/vaulttest"
)

func vaultTeam(t *testing.T) (kit.Team, *vaulttest.Server) {
	t.Helper()
	v, d := kit.Vault(t), kit.Team{Dir: t.TempDir()}
	d.Bundle = d.At("trust.json")
	put := func(name, content string) { kit.Write(t, d.At(name), content) }
	put("admin.token", v.Token)
	kit.Run(t, "vault", "bootstrap", "--apply", "--roots", "--address", v.Address, "--ca", v.CAFile, "--token-file",
		d.At("admin.token"), "--out", d.At("secrets"))
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
		kit.Mediator(t, "keys", "root", "--root-key", d.At(r.Process+".yaml"), "--name", r.Process, "--out", d.Dir).Done(
			"wrote " + r.Key + ":v1")
	}
	return d, v
}

func TestRootKeysInVault(t *testing.T) {
	t.Parallel()
	d, v := vaultTeam(t)
	const manifest = "../../../configs/manifest.yaml"
	e := kit.Mediator(t, "config", "check", d.At("registry.yaml"), d.At("auditor.yaml")).Done()
	if strings.Count(e.Out, "a correct root key") != 2 {
		t.Error(e.Out)
	}
	endpoint := kit.Publish(t, "control", kit.Grant(kit.MemoryKey(t, "grant-key")))
	// do runs a command with a root key over a bundle.
	do := func(flag, key, bundle string, args ...string) kit.Ended {
		t.Helper()
		return kit.Mediator(t, append(args, flag, d.At(key), "--audience", "posting-api", "--bundle", d.At(bundle))...)
	}
	certify := func(key, bundle string) kit.Ended {
		t.Helper()
		return do("--registry-key", key, bundle, "keys", "certify", "--from", endpoint)
	}
	certify("registry.yaml", "trust.json").Done()
	d.WantKeys(t, "grant-key:v1")
	// A file says what its key is for.
	certify("auditor.yaml", "fresh.json").Refused(
		"auditor.yaml names a root key of the purpose deployment_certificate, and not signer_certificate")
	do("--auditor-key", "registry.yaml", "fresh.json", "deployment", "certify", manifest).Refused(
		"and not deployment_certificate")
	do("--registry-key", "registry.yaml", "trust.json", "keys", "revoke", "--key", "grant-key:v1", "--reason",
		"a drill").Done()
	do("--auditor-key", "auditor.yaml", "trust.json", "deployment", "certify", manifest).Done()
	kit.Run(t, "verify", manifest, "--auditor", d.At("auditor.jwk"), "--registry", d.At("registry.jwk"), "--bundle",
		d.Bundle)

	// One version is pinned: a rotation alone changes nothing.
	v.Write(t, "transit/keys/registry/rotate", nil)
	certify("registry.yaml", "trust.json").Done()
	d.WantKeys(t, "grant-key:v1")

	// A key that Vault would export signs nothing.
	v.Write(t, "transit/keys/registry/config", map[string]any{"exportable": true})
	certify("registry.yaml", "trust.json").Refused(
		"it signs nothing: Vault says that the key registry can be exported. (custody_unavailable)")
}

func TestRootKeyInAToken(t *testing.T) {
	d := kit.Team{Dir: t.TempDir()}
	d.Bundle = d.At("trust.json")
	held := d.At("registry.yaml")
	kit.Write(t, held, "purpose: signer_certificate\nkey: registry\n"+softToken(t, "registry")+"\n")
	endpoint := kit.Publish(t, "control", kit.Grant(kit.MemoryKey(t, "grant-key")))
	kit.Run(t, "keys", "root", "--root-key", held, "--name", "registry", "--out", d.Dir)
	kit.Run(t, "keys", "certify", "--registry-key", held, "--audience", "posting-api", "--bundle", d.Bundle, "--from",
		endpoint)
	d.WantKeys(t, "grant-key:v1")
}

func TestRootKeyFileRefused(t *testing.T) {
	t.Parallel()
	const vault = `custody: {type: vault, ` +
		`vault: {address: "https://127.0.0.1:1", keys: [registry], auth: {tokenFile: "{role}.token"}}}`
	const registry = "purpose: signer_certificate\nkey: registry\n"
	path := filepath.Join(t.TempDir(), "registry.yaml")
	for content, want := range map[string]string{
		"key: registry\n" + vault:                           "purpose: is required",
		"purpose: action_grant\nkey: registry\n" + vault:    `purpose: "action_grant" is none of`,
		"purpose: signer_certificate\n" + vault:             "key: is required",
		registry + "version: -1\n" + vault:                  "version: must be a whole number",
		registry + "kid: x\n" + vault:                       "kid",
		registry + "custody: {type: memory}\n":              "a root key outlives the command",
		registry:                                            "custody.type: is required",
		registry + strings.ReplaceAll(vault, "{role}", "x"): "write {role} where they differ",
	} {
		kit.Write(t, path, content)
		kit.Mediator(t, "keys", "root", "--root-key", path, "--name", "registry", "--out", t.TempDir()).Refused(want)
	}
	kit.Mediator(t, "keys", "root", "--root-key", "registry.key.jwk", "--name", "registry").Misused()
}
