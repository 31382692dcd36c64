package node_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/node"
	"github.com/actionproof/mediator/test/check"
)

func TestCA(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "")
	t.Setenv("https_proxy", "")
	var asked int
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca, junk, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "junk.pem"), filepath.Join(dir, "agent.key")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for path, content := range map[string][]byte{ca: certificate, junk: []byte("junk")} {
		check.Must(t, os.WriteFile(path, content, 0o600))
	}
	if _, err := cli.TakeAgentKey(key); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		c    func() *cobra.Command
		args []string
	}{
		{"score", node.Show, []string{"score", "ses_1"}},
		{"reputation", node.Show, []string{"agent", "a:b"}},
		{"dispute", node.Show, []string{"dispute", "dsp_1"}},
		{"dispute open", node.Dispute,
			[]string{"open", "--against", "a:b", "--type", "timing", "--receipt", "00", "--key", key}},
		{"signal", node.Signal, []string{"publish", "It will rain", "--key", key}},
	} {
		for _, with := range []struct {
			ca    string
			asked bool
		}{{ca, true}, {junk, false}, {"", false}} {
			t.Run(tt.name+" "+filepath.Base(with.ca), func(t *testing.T) {
				asked = 0
				c := tt.c()
				c.SetArgs(append(tt.args, "--node", server.URL, "--ca", with.ca))
				c.SetOut(io.Discard)
				c.SetErr(io.Discard)
				err := c.ExecuteContext(t.Context())
				if (asked > 0) != with.asked {
					t.Errorf("the node was asked %d times: %v", asked, err)
				}
			})
		}
	}
}
