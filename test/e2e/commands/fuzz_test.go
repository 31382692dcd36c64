package commands

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// FuzzConfig reads any configuration, policy or manifest file as the processes do. It does not panic, and its errors
// are bounded.
func FuzzConfig(f *testing.F) {
	for _, example := range configs.Dev {
		f.Add(example)
	}
	f.Add([]byte("runtime: &a [*a, *a]\nlisten: !!binary x\n"))
	f.Add([]byte("sources: {github: {}, github: {}}\n---\nsources: {}\n"))
	path := filepath.Join(f.TempDir(), "config.yaml")
	f.Fuzz(func(t *testing.T, raw []byte) {
		check.Must(t, os.WriteFile(path, raw, 0o600))
		if kind, _, err := config.CheckFile(path); err != nil && (err.Error() == "" || len(err.Error()) > 1<<20) {
			t.Errorf("%s: it says %d bytes", kind, len(err.Error()))
		}
	})
}

// FuzzShow draws any record. It does not panic, and prints no control sequences.
func FuzzShow(f *testing.F) {
	raw, err := json.Marshal(gatetest.New(f).Post(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"artifacts":[{"name":"policyDecision","token":"\u001b[2J.e30.AA"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := program.Command()
		var out, fault strings.Builder
		c.SetArgs([]string{"posts", "show", "-"})
		c.SetIn(bytes.NewReader(raw))
		c.SetOut(&out)
		c.SetErr(&fault)
		err := c.ExecuteContext(t.Context())
		if (err == nil) != strings.Contains(out.String(), "nonHumanIdentityProven: false") {
			t.Errorf("%v, and it says %q", err, out.String())
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool {
			return r != '\n' && r != '\t' && unicode.IsControl(r)
		}); i >= 0 {
			t.Errorf("it writes a control character: %q", out.String())
		}
	})
}
