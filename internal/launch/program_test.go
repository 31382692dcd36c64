package launch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
)

// tree makes files below a folder; a name that ends in a slash is a folder.
func tree(t *testing.T, modes map[string]os.FileMode) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "launch-") // unlike t.TempDir, below no closed folder
	check.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	names := []string{}
	for name := range modes {
		names = append(names, name)
	}
	slices.Sort(names)
	err = os.Chmod(dir, 0o755)
	for _, name := range names {
		at := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			err = errors.Join(err, os.Mkdir(at, 0o755))
		} else {
			err = errors.Join(err, os.WriteFile(at, []byte("#!/bin/sh\n"), 0o600), os.Chmod(at, modes[name]))
		}
	}
	for _, name := range names {
		if strings.HasSuffix(name, "/") {
			err = errors.Join(err, os.Chmod(filepath.Join(dir, name), modes[name]))
		}
	}
	check.Must(t, err)
	return dir
}

func TestFind(t *testing.T) {
	dir := tree(t,
		map[string]os.FileMode{"a/": 0o755, "a/p": 0o755, "b/": 0o755, "b/p": 0o700, "b/text": 0o644,
			"b/folder/": 0o755, "c/": 0o755, "c/q": 0o755})
	t.Chdir(dir)
	for _, tt := range []struct{ path, name, want, fails string }{
		{"D/a:D/b", "p", "D/a/p", ""},
		{"D/b:D/none:D/a", "p", "D/b/p", ""},
		{"c:D/a", "p", "D/a/p", ""},
		{"c:D/a", "q", "", "relative folders of PATH are not searched"},
		{"", "p", "", "not found"},
		{"D/b", "text", "", "not found"},
		{"D/b", "folder", "", "not found"},
		{"D/a", "b/p", "D/b/p", ""},
		{"D/a", "./c/q", "D/c/q", ""},
		{"D/a", "./p", "", "no such file"},
		{"D/a", "b/text", "", "permission denied"},
		{"D/a", "./b", "", "is a directory"},
	} {
		t.Setenv("PATH", strings.ReplaceAll(tt.path, "D", dir))
		got, err := find(tt.name)
		switch {
		case tt.fails != "":
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("PATH=%s %s: %v, want %s", tt.path, tt.name, err, tt.fails)
			}
		case err != nil || strings.ReplaceAll(got, dir, "D") != tt.want:
			t.Errorf("PATH=%s %s: %s, %v, want %s", tt.path, tt.name, got, err, tt.want)
		}
	}
}

// TestGitConfig names one repository as safe: the one of the agent's folder, if one user owns all of it.
func TestGitConfig(t *testing.T) {
	full.Only(t, "root")
	const other = 60570
	for _, tt := range []struct {
		name   string
		files  []string // those of the other user have a +
		in     string
		unsafe bool
		want   string
	}{
		{"no repository", []string{"a/"}, "a", false, "a"},
		{"a repository", []string{"a/", "a/.git/"}, "a", false, "a"},
		{"a folder in a repository", []string{"a/", "a/.git/", "a/b/", "a/b/c/"}, "a/b/c", false, "a"},
		{"a work tree of a repository elsewhere", []string{"a/", "a/.git"}, "a", false, "a"},
		{"somebody's repository", []string{"+a/", "+a/.git/", "+a/b/"}, "a/b", false, "a"},
		{"a repository that somebody has put there", []string{"a/", "+a/.git/"}, "a", true, ""},
		{"a repository that somebody has put above", []string{"a/", "+a/.git/", "a/b/"}, "a/b", true, ""},
		{"somebody's folder above, with a repository", []string{"+a/", "+a/.git/", "a/b/"}, "a/b", false, "a/b"},
		{"a name to be quoted", []string{"\"\\ \n/"}, "\"\\ \n", false, "\"\\ \n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := tree(t, nil)
			for _, name := range tt.files {
				at := filepath.Join(dir, strings.TrimPrefix(name, "+"))
				var err error
				if strings.HasSuffix(name, "/") {
					err = os.Mkdir(at, 0o755)
				} else {
					err = os.WriteFile(at, nil, 0o644)
				}
				if strings.HasPrefix(name, "+") {
					err = errors.Join(err, os.Chown(at, other, other))
				}
				check.Must(t, err)
			}
			file := filepath.Join(dir, "gitconfig")
			check.Must(t, os.WriteFile(file, gitConfig(filepath.Join(dir, tt.in)), 0o644))
			want := filepath.Join(dir, tt.want) + "\x00" + filepath.Join(dir, tt.want, ".git") + "\x00"
			if tt.unsafe {
				want = ""
			}
			// git itself reads what was written.
			if out, _ := exec.Command("git", "config", "--file", file, "--null", "--get-all",
				"safe.directory").Output(); string(out) != want {
				t.Errorf("git takes %q for safe, want %q", out, want)
			}
		})
	}
}
