package devstack

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/test/check"
)

func prepared(t *testing.T) *Stack {
	t.Helper()
	dir := t.TempDir()
	check.Must(t, Prepare(dir, configs.Dev))
	return New(dir)
}

func (s *Stack) caKey(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.Dir, CAFolder, "ca-key.pem"))
	check.Must(t, err)
	return string(raw)
}

func TestKeepCA(t *testing.T) {
	day, made := 24*time.Hour, time.Now()
	constrain := func(old, new string) func(t *testing.T, s *Stack) {
		return func(t *testing.T, s *Stack) { s.edit(t, old, new) }
	}
	for name, tt := range map[string]struct {
		after  time.Duration
		change func(t *testing.T, s *Stack)
		stays  bool
		fails  string
	}{
		"at once":           {0, nil, true, ""},
		"after three weeks": {21 * day, nil, true, ""},
		"in its last week":  {24 * day, nil, false, ""},
		"after its end":     {31 * day, nil, false, ""},
		"with a key that is left": {0, func(t *testing.T, s *Stack) {
			check.Must(t, os.Remove(filepath.Join(s.Dir, CAFolder, "ca.pem")))
		}, false, ""},
		"with a key others read": {0, func(t *testing.T, s *Stack) {
			check.Must(t, os.Chmod(filepath.Join(s.Dir, CAFolder, "ca-key.pem"), 0o644))
		}, true, "others may read it"},
		"with a folder of another": {0, func(t *testing.T, s *Stack) { s.edit(t, "{dir: ca,", "{dir: mine,") }, true,
			""},
		"with another host": {0, func(t *testing.T, s *Stack) {
			s.edit(t, "https://api.openai.com/", "https://other.example/")
		}, true, ""},
		"with fewer hosts": {0, func(t *testing.T, s *Stack) {
			s.edit(t, ", unconstrained: true", "")
		}, false, ""},
		"constrained": {0, constrain("", ""), true, ""},
		"constrained, with another host": {0, constrain("https://api.openai.com/", "https://other.example/"), false,
			""},
		"constrained, with a permitted host": {0, constrain("https://api.openai.com/", "https://eu.later.example/"),
			true, ""},
		"constrained, with a permitted address": {0, constrain("https://api.openai.com/", "https://192.0.2.7/"), true,
			""},
		"constrained, with another permission": {0, constrain("later.example", "later.example, more.example"), false,
			""},
		"constrained no more": {0, constrain("permit: [later.example, 192.0.2.7]", "unconstrained: true"),
			false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := prepared(t)
			if strings.HasPrefix(name, "constrained") {
				s.edit(t, "unconstrained: true", "permit: [later.example, 192.0.2.7]")
			}
			check.Must(t, s.keepCA(made))
			before := s.caKey(t)
			if tt.change != nil {
				tt.change(t, s)
			}
			err := s.keepCA(made.Add(tt.after))
			if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Fatalf("got %v, want %q", err, tt.fails)
			}
			if stays := s.caKey(t) == before; stays != tt.stays {
				t.Errorf("the key stays: %t", stays)
			}
		})
	}
}

func (s *Stack) edit(t *testing.T, old, new string) {
	t.Helper()
	path := filepath.Join(s.Dir, SidecarFile)
	raw, err := os.ReadFile(path)
	check.Must(t, err)
	check.Must(t, os.WriteFile(path, []byte(strings.Replace(string(raw), old, new, 1)), 0o600))
}

// TestSetAside keeps the public files of maxEarlier starts, and nothing of an incomplete folder.
func TestSetAside(t *testing.T) {
	s := prepared(t)
	folders := func() []fs.DirEntry {
		t.Helper()
		all, err := os.ReadDir(filepath.Join(s.Dir, EarlierFolder))
		check.Must(t, err)
		return all
	}
	check.Must(t, s.setAside(time.Now())) // the first start has nothing before it
	if _, err := os.Stat(filepath.Join(s.Dir, EarlierFolder)); err == nil {
		t.Error("a start before the first one is kept")
	}
	check.Must(t, os.MkdirAll(filepath.Join(s.Dir, EarlierFolder, ".new", "of a crash"), 0o700))
	for i := range maxEarlier + 2 {
		for _, name := range []string{RegistryFile, AuditorFile, "trust-history.json", BundleFile} {
			check.Must(t, os.WriteFile(filepath.Join(s.Dir, name), []byte(fmt.Sprint(name, i)), 0o600))
		}
		check.Must(t, s.setAside(time.Unix(int64(i), 0)))
	}
	all := folders()
	if len(all) != maxEarlier {
		t.Fatalf("%d folders are kept", len(all))
	}
	for _, name := range []string{RegistryFile, AuditorFile, "trust-history.json", BundleFile} {
		raw, err := os.ReadFile(filepath.Join(s.Dir, EarlierFolder, all[0].Name(), name))
		if want := name + "2"; err != nil || string(raw) != want {
			t.Errorf("the oldest %s holds %q, %v; want %q", name, raw, err, want)
		}
		if _, err := os.Stat(filepath.Join(s.Dir, name)); err == nil {
			t.Errorf("%s is left where the next start writes it", name)
		}
	}
}
