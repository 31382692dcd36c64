package node_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/internal/cli/node"
	"github.com/actionproof/mediator/test/check"
)

// TestCA asks a node whose certificate only one file vouches for, and follows no redirect.
func TestCA(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "")
	t.Setenv("https_proxy", "")
	var asked int
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca, junk := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "junk.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for path, content := range map[string][]byte{ca: certificate, junk: []byte("junk")} {
		check.Must(t, os.WriteFile(path, content, 0o600))
	}
	for path, want := range map[string]int{ca: 1, junk: 0, "": 0} {
		asked = 0
		c := node.Show()
		c.SetArgs([]string{"signal", "sig_1", "--node", server.URL, "--ca", path})
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		if err := c.ExecuteContext(t.Context()); err == nil || asked != want {
			t.Errorf("by %q the node was asked %d times: %v", path, asked, err)
		}
	}
}
