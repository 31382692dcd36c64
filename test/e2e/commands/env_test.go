package commands

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestEnvInFish evaluates mediator env in fish, with a folder name full of quotes.
func TestEnvInFish(t *testing.T) {
	t.Parallel()
	fish := kit.Need(t, "fish")
	dir := filepath.Join(t.TempDir(), `it's \here\`)
	check.Must(t, os.MkdirAll(filepath.Join(dir, "state"), 0o700))
	kit.Write(t, filepath.Join(dir, "mediator.yaml"), kit.Read(t, "../../../configs/dev/mediator.yaml"))
	script := kit.Run(t, "env", "--shell", "fish", "--dir", dir)
	cmd := exec.Command(fish, "--no-config")
	cmd.Stdin = strings.NewReader(script + "printenv CURL_CA_BUNDLE HTTPS_PROXY; set -q NO_PROXY; or echo unset\n")
	cmd.Env = append(os.Environ(), "NO_PROXY=*", "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if want := dir + "/ca.pem\nhttp://127.0.0.1:8181\nunset\n"; err != nil || string(out) != want {
		t.Errorf("got %s, %v, want %s", out, err, want)
	}
}
