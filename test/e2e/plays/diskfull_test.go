package plays

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestDiskFullSidecar fills the disk of a running sidecar's ledger. It posts nothing then, says so, and goes on by itself once there is
// room. A post that was in flight when the disk became full is answered, and its outcome stored once there is room.
func TestDiskFullSidecar(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	r := prepareCrashRig(t, kit.ThisProgram(t), "")
	state := filepath.Join(r.Dir, "state")
	if err := syscall.Mount("tmpfs", state, "tmpfs", 0, "size=2m,mode=0700"); err != nil {
		t.Fatalf("mount a file system: %v: run the tests as root", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(state, 0); err != nil {
			t.Error(err)
		}
	})
	r.startUntilEnd(t)
	filler := filepath.Join(state, "filler")
	fill := func() {
		if err := os.WriteFile(filler, bytes.Repeat([]byte{1}, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("the disk is not full: %v", err)
		}
	}
	r.hold = func(req *http.Request, w http.ResponseWriter) {
		_, _ = io.Copy(io.Discard, req.Body)
		if strings.HasSuffix(req.URL.Path, "/meanwhile") {
			fill()
		}
		w.WriteHeader(http.StatusCreated)
	}
	room := func() {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
	var inFlight string
	for _, tt := range []struct {
		name       string
		before     func()
		status     int
		code       string
		retryAfter string
		arrived    int
	}{
		{"before", func() {}, http.StatusCreated, "", "", 1},
		{"full", fill, http.StatusServiceUnavailable, "ledger_unavailable", "5", 0},
		{"room", room, http.StatusCreated, "", "", 1},
		{"meanwhile", func() {}, http.StatusCreated, "", "", 1},
		{"afterwards", func() {}, http.StatusServiceUnavailable, "ledger_unavailable", "5", 0},
	} {
		tt.before()
		event, err := r.DeliverRelease(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.open(ctx, event)
		if err != nil {
			t.Fatal(err)
		}
		path := "/posts/" + tt.name
		resp, d := r.try(ctx, t, r.agentOf(t, s), path, nil)
		if resp.StatusCode != tt.status || d.Code != tt.code || resp.Header.Get("Retry-After") != tt.retryAfter || r.arrived(path) != tt.arrived {
			t.Errorf("%s: %d %s, Retry-After %q, %d arrived", tt.name, resp.StatusCode, d.Code, resp.Header.Get("Retry-After"), r.arrived(path))
		}
		if tt.name == "meanwhile" {
			inFlight = event
		}
	}
	room()
	r.kill(t, "serve", syscall.SIGTERM)
	_ = r.supervisor.Wait()
	r.start(t)
	r.wantRecord(t, &posted{event: inFlight, path: "/posts/meanwhile"}, ledger.StateForwarded) // kept while it found no room
}
