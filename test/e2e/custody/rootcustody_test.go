package custody

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/policy"
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
	path := t.TempDir() + "/registry.yaml"
	for content, want := range map[string]string{
		"key: registry\n" + vault:                           "purpose: is required",
		"purpose: action_grant\nkey: registry\n" + vault:    `purpose: "action_grant" is none of`,
		"purpose: signer_certificate\n" + vault:             "key: is required",
		registry + "version: -1\n" + vault:                  "version: must be a whole number",
		registry + "kid: x\n" + vault:                       "kid",
		registry + "custody: {type: memory}\n":              "a root key outlives the command",
		registry:                                            "custody.type: is required",
		registry + strings.ReplaceAll(vault, "{role}", "x"): "write {role} where the roles differ",
	} {
		kit.Write(t, path, content)
		kit.Mediator(t, "keys", "root", "--root-key", path, "--name", "registry", "--out", t.TempDir()).Refused(want)
	}
	kit.Mediator(t, "keys", "root", "--root-key", "registry.key.jwk", "--name", "registry").Misused()
}

func softToken(t *testing.T, keys ...string) string {
	t.Helper()
	const module, pin = "/usr/lib/softhsm/libsofthsm2.so", "567890"
	dir := t.TempDir()
	conf, pinFile := dir+"/softhsm2.conf", dir+"/pin"
	kit.Write(t, conf, "directories.tokendir = "+dir+"\nobjectstore.backend = file\n")
	kit.Write(t, pinFile, pin)
	t.Setenv("SOFTHSM2_CONF", conf)
	sh := func(args ...string) {
		if out, err := exec.Command(kit.Need(t, args[0]), args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v %s", args, err, out)
		}
	}
	sh("softhsm2-util", "--init-token", "--free", "--label", "mediator", "--so-pin", "12345678", "--pin", pin)
	for _, key := range keys {
		sh("pkcs11-tool", "--module", module, "--token-label", "mediator", "--login", "--pin", pin, "--keypairgen",
			"--key-type", "EC:edwards25519", "--label", key, "--id", "01")
	}
	return fmt.Sprintf("custody: {type: pkcs11, pkcs11: {module: %s, token: mediator, pinFile: %s, hardware: true}}",
		module, pinFile)
}

func TestPKCS11(t *testing.T) {
	custody := softToken(t, "runtime-key", "session-key", "request-proof-key", "interaction-receipt-key",
		"agent-statement-key", "origin-proof-key", "trigger-receipt-key", "policy-decision-key", "action-grant-key",
		"appraiser-key")
	store := filepath.Dir(os.Getenv("SOFTHSM2_CONF"))
	r := kit.NewClientsRig(t, func(file string) string {
		return strings.Replace(kit.Speaking(file), "custody: {type: memory}", custody+"\nconfine: {write: ["+store+"]}", 1)
	})
	if out := r.Curl(t); !strings.HasSuffix(out, " 201") {
		t.Fatal(out)
	}
	var roles []daemon.RoleDocument
	if err := admin.Get(t.Context(), r.Stack.Admin(), "/v1/roles", &roles); err != nil || len(roles) != 5 {
		t.Fatalf("%v, %v", roles, err)
	}
	for _, role := range roles {
		// The configuration declares that the token is hardware, so that is not observed.
		if role.KeyCustody != "hardware_backed" || role.KeyExportable || fmt.Sprint(role.Observed) != "[keyExportable]" {
			t.Errorf("%+v", role)
		}
	}
	doctor, controls := r.Doctor(t)
	if !strings.Contains(doctor.Out,
		"The token mediator says that it made the key runtime-key and has never let it out.") {
		t.Errorf("doctor does not say what the token says:\n%s", doctor.Out)
	}
	if !slices.Contains(controls[policy.DeclaredOnly], "triggerCanBeMintedByRuntimeSigner") {
		t.Errorf("one PIN opens the keys of all processes, and it is not only declared that none signs for another:\n%s",
			doctor.Out)
	}
}
