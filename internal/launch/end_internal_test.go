package launch

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

// TestSessionEndsFirst wants a session to end before its records are read, which takes long after a million calls.
func TestSessionEndsFirst(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", socket)
	check.Must(t, err)
	asked := make(chan string, 2)
	sidecar := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.Path
		_, _ = io.WriteString(w, "[]")
	}))
	sidecar.Listener = l
	sidecar.Start()
	defer sidecar.Close()
	Options{Admin: "unix:" + socket, Stderr: io.Discard}.end(t.Context(), "ses_1")
	for _, want := range []string{"DELETE /v1/sessions/ses_1", "GET /v1/posts"} {
		if got := <-asked; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	}
}
