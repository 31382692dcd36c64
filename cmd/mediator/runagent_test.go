package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/internal/demo"
)

// TestRunAsRoot refuses an agent that would run as root, by its number or because root starts it. No event is used up.
func TestRunAsRoot(t *testing.T) {
	r := newSessionRig(t)
	for _, flags := range [][]string{{"--uid", "0"}, {"--uid", "-1"}, {"--uid", "0", "--share-network"}} {
		stdout, stderr, err := r.startRun(t, nil, flags, "id -u")
		if err == nil || stdout != "" || !strings.Contains(stderr, "and its event still waits: an agent that runs as root") {
			t.Errorf("%v: %v %q %s", flags, err, stdout, stderr)
		}
	}
}

// TestRunByAnotherUser: a user who is not root cannot start agents as others, and hears which groups its agents keep.
func TestRunByAnotherUser(t *testing.T) {
	r := newSessionRig(t)
	as := func(groups ...uint32) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) {
			user := uint32(demo.User())
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user, Groups: groups}
			cmd.Dir = "/"
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*exec.Cmd)
		flags  []string
		says   string
	}{
		{"as root", as(), []string{"--uid", "0"}, "an agent that runs as root"},
		{"as another user", as(), []string{"--uid", "12345"}, "only root can start an agent as user 12345"},
		{"with groups", as(4, 60001), nil, "keeps this user's groups [4 60001]"},
		{"with groups, as itself", as(4, 60001), []string{"--uid", "-1"}, "keeps this user's groups [4 60001]"},
	} {
		_, stderr, err := r.startRun(t, tt.change, tt.flags, "true") // whom the sidecar's socket does not admit
		if err == nil || !strings.Contains(stderr, tt.says) {
			t.Errorf("%s: %v %s", tt.name, err, stderr)
		}
	}
	if _, stderr, _ := r.startRun(t, as(uint32(demo.User())), nil, "true"); strings.Contains(stderr, "groups") {
		t.Errorf("without other groups: %s", stderr)
	}
}

// TestGitInARun has git work in the operator's repository, from a folder in it, and not in one that another user has put there.
func TestGitInARun(t *testing.T) {
	r := newSessionRig(t)
	dir, err := os.MkdirTemp("/srv", "repository-") // where a run sees the folders above its own
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	out, err := exec.Command("sh", "-ec", `umask 022; cd "$0"; git init -q .; mkdir -p sub/folder; echo text >sub/folder/file; git add .
git -c user.name=a -c user.email=a@b commit -qm 'the first commit'`, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	for _, tt := range runs {
		t.Run(tt.name, func(t *testing.T) {
			start := func() (string, string, error) {
				return r.startRun(t, func(cmd *exec.Cmd) {
					cmd.Dir = filepath.Join(dir, "sub", "folder")
					if tt.none {
						withoutNamespaces(t)(cmd)
					}
				}, tt.flags, `git log --format=%s; git status --short; git clone -q "$0" "$TMPDIR/copy" && cat "$TMPDIR/copy/sub/folder/file"`, dir)
			}
			if stdout, stderr, err := start(); err != nil || stdout != "the first commit\ntext\n" || strings.Contains(stderr, "dubious") {
				t.Errorf("%v %q %s", err, stdout, stderr)
			}
			other := demo.User() + 1
			must(t, errors.Join(os.Chown(filepath.Join(dir, ".git"), other, other)))
			defer func() { must(t, os.Chown(filepath.Join(dir, ".git"), 0, 0)) }()
			if stdout, stderr, err := start(); err == nil || stdout != "" || !strings.Contains(stderr, "dubious") {
				t.Errorf("a repository of user %s: %v %q %s", strconv.Itoa(other), err, stdout, stderr)
			}
		})
	}
}
