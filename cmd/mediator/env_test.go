package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/full"
)

// TestEnvInFish: fish reads from mediator env what was meant, whatever the folder is called.
func TestEnvInFish(t *testing.T) {
	full.Only(t, "fish")
	dir := filepath.Join(t.TempDir(), `it's \here\`)
	must(t, os.MkdirAll(filepath.Join(dir, "state"), 0o700))
	raw, err := os.ReadFile("../../configs/dev/mediator.yaml")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "mediator.yaml"), raw, 0o600))
	status, script, said := invoke(t, "env", "--shell", "fish", "--dir", dir)
	if status != exitDone {
		t.Fatal(said)
	}
	cmd := exec.Command(need(t, "fish"), "--no-config")
	cmd.Stdin = strings.NewReader(script + "printenv CURL_CA_BUNDLE HTTPS_PROXY; set -q NO_PROXY; or echo unset\n")
	cmd.Env = append(os.Environ(), "NO_PROXY=*", "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if want := dir + "/ca.pem\nhttp://127.0.0.1:8181\nunset\n"; err != nil || string(out) != want {
		t.Errorf("got %s, %v, want %s", out, err, want)
	}
}
