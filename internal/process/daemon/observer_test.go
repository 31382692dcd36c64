package daemon_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/signer"
)

// TestFilesAreLookedAtForEveryUser: a run may have a user of its own, whom no file names.
func TestFilesAreLookedAtForEveryUser(t *testing.T) {
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file, agent, group := filepath.Join(dir, "f"), uint32(os.Getuid()+4242), uint32(os.Getgid())
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := custody.NewMemory("k")
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{
		0o600: "",
		0o640: "the agent's user",
		0o604: "a user who owns nothing and is in no group can read " + file,
	} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		o := daemon.Observer{
			Agent: config.Agent{UID: &agent, GIDs: []uint32{group}},
			Roles: []daemon.Role{{Purpose: "p", Key: signer.NewRotation(key, 0, time.Now)}},
			Paths: daemon.SecretPaths(file),
		}
		err := o.CheckStart(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("mode %o: %v", mode, err)
		}
		files := slices.IndexFunc(o.Observe(t.Context(), 0), func(l look.Observation) bool {
			return l.ID() == "files:p" && l.Result == look.Holds
		})
		if want == "" && files < 0 {
			t.Errorf("mode %o: the files do not hold", mode)
		}
	}
}
