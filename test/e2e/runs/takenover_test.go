package runs

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/isolate"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/tlstest"
)

// TestTakenOver answers root's mediator run as a sidecar that is taken over: root opens no file that it names for the
// agent.
func TestTakenOver(t *testing.T) {
	dir := t.TempDir()
	secret, socket := filepath.Join(dir, "node.pem"), filepath.Join(dir, "admin.sock")
	check.Must(t, os.WriteFile(secret, append(tlstest.New(t).PEM(), "the node's key"...), 0o600))
	l, err := net.Listen("unix", socket)
	check.Must(t, err)
	sidecar := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			_, _ = io.WriteString(w, "[]")
			return
		}
		_ = json.NewEncoder(w).Encode(admin.Session{Session: "ses_1", Event: "evt_1", ProxyURL: "http://127.0.0.1:9",
			CAFile: secret})
	}))
	sidecar.Listener = l
	sidecar.Start()
	defer sidecar.Close()
	out, err := exec.CommandContext(t.Context(), kit.Self(t), "run", "--admin", "unix:"+socket, "--require-isolation",
		"--",
		"sh", "-c", "echo started; cat "+isolate.CAFile).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "started") || strings.Contains(string(out), "the node's key") {
		t.Errorf("%v: %s", err, out)
	}
}
