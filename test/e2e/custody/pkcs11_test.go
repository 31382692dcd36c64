package custody

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/e2e/kit"
)

func softToken(t *testing.T, keys ...string) string {
	t.Helper()
	const module, pin = "/usr/lib/softhsm/libsofthsm2.so", "567890"
	dir := t.TempDir()
	conf, pinFile := filepath.Join(dir, "softhsm2.conf"), filepath.Join(dir, "pin")
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
