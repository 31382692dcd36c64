package console_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
)

// TestVendored: htmx and its licence are those that npm has.
func TestVendored(t *testing.T) {
	full.Only(t, "node's modules")
	for name, from := range map[string]string{"htmx.js": "dist/htmx.min.js", "htmx.LICENSE": "LICENSE"} {
		want, err := os.ReadFile("../../test/e2e/testdata/node/node_modules/htmx.org/" + from)
		check.Must(t, err)
		got, err := os.ReadFile("static/" + name)
		check.Must(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("static/%s is not htmx.org's %s", name, from)
		}
	}
}
