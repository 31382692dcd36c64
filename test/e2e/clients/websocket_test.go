package clients

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/rulesfile"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

const socketRules = `
actions:
  - name: comment
    match: {url: "https://PLAIN/comments", methods: [POST]}
    subject: agent:worker-1
    action: create_comment
egress:
  - name: sockets
    match: {url: "https://PLAIN/sockets/{name}", methods: [GET]}
    credential: {prefix: "Bearer ", file: secrets/api-token}
    websocket: true
  - name: reads
    match: {url: "https://PLAIN/**", methods: [GET]}
upstreams:
  - {host: "PLAIN", address: "SOCKETS", networks: [127.0.0.0/8], ca: api-ca.pem}
`

func newSocketsRig(t *testing.T, change ...func(string) string) (*kit.Rig, *kit.NodeServer) {
	t.Helper()
	var server *kit.NodeServer
	r := kit.NewRig(t, kit.Plain, func(r *kit.Rig) (http.Handler, string) {
		server = kit.StartNode(t, r, "ws-server.mjs")
		return http.NotFoundHandler(), strings.ReplaceAll(socketRules, "SOCKETS", server.Address)
	}, change...)
	return r, server
}

// TestWebSockets has npm's ws talk to npm's ws, with a credential that the agent never sees.
func TestWebSockets(t *testing.T) {
	t.Parallel()
	node := []string{kit.Need(t, "node"), "--no-warnings", kit.Scripts + "node/ws.mjs"}
	kit.NodeJS(t) // whose packages have to be there
	t.Run("answered", func(t *testing.T) {
		t.Parallel()
		r, server := newSocketsRig(t)
		base := "wss://" + r.Plain()
		out, err := r.AsAgent(t, kit.With(node, "echo", base+"/sockets/a")...)
		const want = "4 back, protocol echo, permessage-deflate, closed 1000"
		if err != nil || out != want {
			t.Fatalf("got %q, %v; want %q", out, err, want)
		}
		if server.Seen("open Bearer "+trial.Token) != 1 {
			t.Error("the upstream did not get the credential")
		}
		kit.Until(t, "the record", func() bool { return len(r.RecordsOf(t, "sockets", "")) > 0 })
		rec := r.RecordsOf(t, "sockets", "")[0]
		if rec.State != ledger.StateForwarded || rec.Status != http.StatusSwitchingProtocols || rec.BytesIn == 0 ||
			rec.BytesOut == 0 || !rec.Finished.After(rec.Started) {
			t.Errorf("recorded was %+v", rec)
		}
		for _, path := range []string{"/other", "/comments"} {
			if out, err := r.AsAgent(t, kit.With(node, "echo", base+path)...); err != nil ||
				out != "403 egress_denied" {
				t.Errorf("%s: got %q, %v", path, out, err)
			}
		}
		if n := len(r.RecordsOf(t, "", "egress_denied")); n != 2 {
			t.Errorf("%d refusals are recorded", n)
		}
		file := r.In(devstack.SidecarFile)
		learnt, err := rulesfile.Merge(kit.Read(t, file), []byte(kit.Run(t, "learn", "--dir", r.Dir, "--yaml")))
		check.Must(t, err)
		kit.Write(t, file, string(learnt))
		_, err = r.Stack.Reload(t.Context())
		check.Must(t, err)
		if out, err := r.AsAgent(t, kit.With(node, "echo", base+"/other")...); err != nil || out != want {
			t.Errorf("by rules that mediator learn proposes: %q, %v", out, err)
		}
	})
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		r, server := newSocketsRig(t, func(file string) string {
			return strings.Replace(file, "\nactions:", "\nwebsocketRefusal: close\nactions:", 1)
		})
		base := "wss://" + r.Plain()
		if out, err := r.AsAgent(t, kit.With(node, "echo", base+"/other")...); err != nil ||
			!strings.HasPrefix(out, "error socket hang up") {
			t.Errorf("got %q, %v", out, err)
		}
		if n := len(r.RecordsOf(t, "", "egress_denied")); n != 1 {
			t.Errorf("%d refusals are recorded", n)
		}
		// The mediator closes open sockets when it ends, and does not wait for them.
		stayed := make(chan string, 1)
		go func() {
			out, _ := r.AsAgent(t, kit.With(node, "stay", base+"/sockets/a")...)
			stayed <- out
		}()
		kit.Until(t, "the socket", func() bool { return server.Seen("open Bearer "+trial.Token) > 0 })
		r.Stack.Stop()
		if out := <-stayed; !strings.HasSuffix(out, "closed 1006") {
			t.Errorf("got %q at the end", out)
		}
	})
}
