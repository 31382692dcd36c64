package operation

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/agentpod"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/proxy/own"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/tlstest"
)

// TestAgentsPods leads two agents to one sidecar by forwarders. Each has the session of its certificate, whatever it
// says, and the receipts name its pod.
func TestAgentsPods(t *testing.T) {
	t.Parallel()
	at, err := freeport.Address()
	check.Must(t, err)
	r := kit.PrepareClientsRig(t, kit.ManyPosts, func(file string) string {
		return strings.Replace(file, "runtime: worker-1\n", fmt.Sprintf("runtime: worker-1\nsession: {standing: true}\n"+
			"tls: {certificate: tls/bundle.pem, key: tls/bundle.pem, authorities: tls/authorities.pem}\n"+
			"agents: {tcp: %q, callers: [\"spiffe://example.org/agent/agents/*\"]}\n", at), 1)
	})
	authority := tlstest.New(t)
	authority.Write(t, r.In("tls"), nil, "spiffe://example.org/pod/mediator/1")
	r.Start(t)
	check.Must(t, r.Stack.WaitFor(t.Context(), r.Process("serve"), "/readyz"))

	open := func(id string) kit.Agent {
		own, err := identity.Load(authority.Write(t, t.TempDir(), nil, id))
		check.Must(t, err)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check.Must(t, err)
		ca := filepath.Join(t.TempDir(), "ca.pem")
		f := agentpod.Forwarder{Listen: l, Proxy: at, Name: "spiffe://example.org/pod/mediator/1", Identity: own, CAFile: ca,
			Log: zaptest.NewLogger(t)}
		ended := make(chan error, 1)
		go func() { ended <- f.Run(t.Context()) }()
		t.Cleanup(func() { check.Must(t, <-ended) })
		if !strings.Contains(id, "/agent/") { // no callers
			check.Must(t, os.WriteFile(ca, authority.PEM(), 0o600))
		}
		kit.Until(t, "the mediator's CA", func() bool { _, err := os.Stat(ca); return err == nil })
		transport := kit.ProxyTransport(t, admin.Session{ProxyURL: "http://" + l.Addr().String(), CAFile: ca})
		t.Cleanup(transport.CloseIdleConnections)
		return kit.Agent{Base: "https://" + r.Plain(), Client: &http.Client{Transport: transport, Timeout: kit.Patience}}
	}
	first, second := open("spiffe://example.org/agent/agents/1"), open("spiffe://example.org/agent/agents/2")
	next := func(a kit.Agent) (e own.Event) {
		resp, err := a.Get("http://mediator.internal/v1/event/next?wait=60s")
		check.Must(t, err)
		defer resp.Body.Close()
		check.Must(t, json.NewDecoder(resp.Body).Decode(&e))
		return e
	}
	one := next(first)
	if o := second.Post(); o.Code == "" {
		t.Errorf("the second pod posts with the session of the first: %+v", o)
	}
	two := next(second)
	if one.Session == two.Session || one.Event.ID == two.Event.ID {
		t.Errorf("both pods have the session %s", one.Session)
	}
	if o := open("spiffe://example.org/pod/mediator/2").Post(); o.Code == "" {
		t.Error("a pod that is not among the callers posts")
	}
	first.MustPost(t)
	second.MustPost(t)
	pods := map[string]string{one.Session: "agent/agents/1", two.Session: "agent/agents/2"}
	for _, p := range r.Records(t, "limit=10&flow=post&state=forwarded") {
		for _, a := range p.Artifacts {
			if a.Name != "sessionReceipt" {
				continue
			}
			c, err := evidence.UnverifiedClaims(evidence.SessionReceiptKind(), a.Token)
			check.Must(t, err)
			if c.AgentPod != pods[c.SessionID] || c.Enforcement != evidence.EnforcedPod ||
				!slices.Contains(c.Observed, "agentPod") ||
				slices.Contains(c.Observed, "enforcement") {
				t.Errorf("the receipt of %s says %+v", c.SessionID, c)
			}
			delete(pods, c.SessionID)
		}
	}
	check.WantEqual(t, len(pods), 0)
	// Without their authority both end, also in the tunnels that they have open.
	tlstest.Replace(t, r.In("tls/authorities.pem"), tlstest.New(t).PEM())
	for _, a := range []kit.Agent{first, second} {
		kit.Until(t, "a pod of a withdrawn authority to be refused", func() bool {
			resp, err := a.Get(a.Base + "/repos/acme/site")
			if err != nil { // a new connection
				return true
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return err == nil && resp.StatusCode == http.StatusForbidden
		})
	}
	ended, _ := r.Doctor(t)
	ended.Done("only declared  pod: ")
}
