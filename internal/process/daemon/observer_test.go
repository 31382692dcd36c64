package daemon_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

// TestFilesAreLookedAtForEveryUser: a run may have a user of its own, whom no file names.
func TestFilesAreLookedAtForEveryUser(t *testing.T) {
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		check.Must(t, os.Chmod(d, 0o755))
	}
	file, agent, group := filepath.Join(dir, "f"), uint32(os.Getuid()+4242), uint32(os.Getgid())
	check.Must(t, os.WriteFile(file, nil, 0o600))
	key, err := custody.NewMemory("k")
	check.Must(t, err)
	for mode, want := range map[os.FileMode]string{
		0o600: "",
		0o640: "the agent's user",
		0o604: "a user who owns nothing and is in no group can read " + file,
	} {
		check.Must(t, os.Chmod(file, mode))
		o := daemon.Observer{
			Plan:  daemon.Plan{Process: config.Process{Agent: config.Agent{UID: &agent, GIDs: []uint32{group}}}},
			Roles: []daemon.Role{{Purpose: "p", Key: signer.NewRotation(key, 0, time.Now)}},
			Paths: []observe.Path{{Name: file, Secret: true}},
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

// TestLateAnswer: a custody that takes long to say what refuses the start still refuses it.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := func(ctx context.Context, _ time.Duration) []look.Observation {
			select {
			case <-time.After(10 * time.Second):
				return []look.Observation{look.New(look.Apart, look.Contradicts, "The token may do more.")}
			case <-ctx.Done():
				return nil
			}
		}
		o := daemon.Observer{Plan: daemon.Plan{Extra: late}}
		check.WantCode(t, o.CheckStart(t.Context()), "deployment_contradicted", "may do more")
	})
}
