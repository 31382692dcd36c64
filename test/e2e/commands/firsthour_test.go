package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestSecondDev: mediator dev changes nothing in a folder in which another one runs, and names that process.
func TestSecondDev(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	release, err := devstack.Hold(dir)
	check.Must(t, err)
	defer release()
	// what a start would set aside
	kit.Write(t, filepath.Join(dir, devstack.BundleFile), "{}")
	list := func() string {
		all, err := os.ReadDir(dir)
		check.Must(t, err)
		return fmt.Sprint(all)
	}
	before := list()
	kit.Mediator(t, "dev", "--dir", dir).Refused(fmt.Sprintf("mediator: process %d runs in %s already: end it first, "+
		"or give this one a folder of its own with --dir (listen_failed)\n", os.Getpid(), dir))
	if after := list(); after != before || strings.Contains(after, devstack.SidecarFile) {
		t.Errorf("the folder was changed, from\n%s\nto\n%s", before, after)
	}
}
