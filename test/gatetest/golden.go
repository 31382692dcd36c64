package gatetest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ids are the random ids of artifacts.
var ids = regexp.MustCompile(`\b0[0-9A-V]{25}\b`)

// Sentences is a golden file of refusals: a line for each case, with its name, a tab and the refusal's sentence. Many
// checks share a code; the sentence shows that the check under test refused.
type Sentences struct {
	update bool
	mu     sync.Mutex
	want   map[string]string
	got    []string
}

// Golden reads the golden file of a test, or writes it when the test ends, with update.
func Golden(t *testing.T, path string, update bool) *Sentences {
	t.Helper()
	s := &Sentences{update: update, want: make(map[string]string)}
	if update {
		t.Cleanup(func() {
			slices.Sort(s.got)
			if err := os.WriteFile(path, []byte(strings.Join(s.got, "")), 0o600); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with go test -update", err)
	}
	for line := range strings.Lines(string(raw)) {
		name, sentence, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		s.want[name] = sentence
	}
	return s
}

// Want demands that a case was refused with the sentence of the golden file.
func (s *Sentences) Want(t *testing.T, name string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s was not refused", name)
		return
	}
	got := ids.ReplaceAllString(err.Error(), "ID")
	if s.update {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, fmt.Sprintf("%s\t%s\n", name, got))
		return
	}
	if got != s.want[name] {
		t.Errorf("%s: refused with %q, want %q", name, got, s.want[name])
	}
}
