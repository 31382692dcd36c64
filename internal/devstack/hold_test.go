package devstack_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/test/check"
)

func TestHold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stack")
	for range 2 { // the second time the file is there, and not locked
		release, err := devstack.Hold(dir)
		check.Must(t, err)
		_, err = devstack.Hold(dir)
		check.WantCode(t, err, "listen_failed")
		if want := fmt.Sprintf("process %d runs in %s already", os.Getpid(), dir); !strings.Contains(err.Error(),
			want) {
			t.Errorf("%q does not say %q", err, want)
		}
		release()
	}
	release, err := devstack.Hold(dir)
	check.Must(t, err)
	defer release()
	check.Must(t, os.Truncate(filepath.Join(dir, "dev.lock"), 0)) // as it is before the first has written its id
	if _, err = devstack.Hold(dir); err == nil || !strings.Contains(err.Error(), "another process runs in") {
		t.Errorf("got %v", err)
	}
}
