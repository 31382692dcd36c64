package node

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/gatetest"
)

func nodeStores(t *testing.T) map[string]func(t *testing.T) string {
	return map[string]func(t *testing.T) string{
		"a file": func(*testing.T) string { return "" },
		"PostgreSQL": func(t *testing.T) string {
			path := t.TempDir() + "/dsn"
			kit.Write(t, path, kit.Database(t))
			return "store: {postgres: {dsnFile: " + path + "}}\n"
		},
	}
}

func TestNode(t *testing.T) {
	t.Parallel()
	for name, store := range nodeStores(t) {
		t.Run(name, func(t *testing.T) {
			n := kit.NewNode(t, store(t))
			n.Begin(t)
			kit.Until(t, "the node to say what it waits for", func() bool {
				err := admin.Get(t.Context(), "unix:"+n.Socket(), "/readyz", nil)
				return err != nil && strings.Contains(err.Error(), "waits for a trust bundle that certifies this process's keys")
			})
			receipts := n.Calls(t, "ses_1", 12)
			if s, err := n.Deliver(t, receipts...); err == nil {
				t.Errorf("a node that is not ready takes receipts: %+v", s)
			}
			if err := n.End(t, syscall.SIGTERM); err == nil {
				t.Error("it says that it ended well, and has never been ready")
			}
			n.Start(t)
			if next := n.Delivered(t, receipts, 5); next != 13 {
				t.Errorf("the node wants receipt %d", next)
			}
			c := n.Scored(t, receipts[3])
			if c.HeadNumber != 12 || c.Session != "ses_1" || c.Owner != n.Kit.Owner(t) ||
				c.HeadHash != evidence.HashToken(receipts[11]) || c.Closed {
				t.Errorf("the score is of %+v", c)
			}
			for _, path := range []string{"/metrics", "/v1/roles", "/v1/looks", "/readyz", "/v1/reload", "/v1/reputation",
				"/v1/sessions/ses_1/challenges"} {
				var p struct{ Code string }
				if status := n.Get(t, path, &p); status != http.StatusNotFound || p.Code != "not_found" {
					t.Errorf("%s at the public address: %d %s", path, status, p.Code)
				}
			}
			n.WantMetrics(t, `mediator_node_requests_total{endpoint="receipts",status="200"} 3`,
				`mediator_node_requests_total{endpoint="score",status="200"} 1`,
				`mediator_node_requests_total{endpoint="other",status="404"} 5`,
				`mediator_node_requests_total{endpoint="reputation",status="404"} 1`,
				`mediator_node_request_seconds_count{endpoint="receipts"} 3`, `mediator_owner_bundle_refused{owner="us"} 0`)
			if resp, err := http.Get("http://" + n.Public + "/openapi.json"); err == nil && resp.StatusCode == http.StatusOK {
				t.Error("the public address speaks plain HTTP")
			}
			check.Must(t, n.End(t, syscall.SIGTERM))
			log := kit.Read(t, n.At("one.log"))
			if bytes.Contains(log, []byte(`"level":"error"`)) || bytes.Contains(log, []byte("password")) {
				t.Errorf("the log has\n%s", log)
			}
		})
	}
}

func TestNodeKilled(t *testing.T) {
	t.Parallel()
	for name, store := range nodeStores(t) {
		t.Run(name, func(t *testing.T) {
			n := kit.NewNode(t, store(t))
			receipts := n.Calls(t, "ses_1", 120)
			var acknowledged int64
			for _, enough := range []int64{10, 45, 80} {
				n.Start(t)
				if s, err := n.Deliver(t, receipts[0]); err != nil || s.Problem.Code != "" || s.Next < acknowledged {
					t.Fatalf("%d were acknowledged, and the node says %+v, %v", acknowledged, s, err)
				}
				killed := make(chan error, 1)
				for part := range slices.Chunk(receipts, 3) {
					s, err := n.Deliver(t, part...)
					if err != nil && n.Cmd != nil {
						t.Fatal(err)
					}
					if err != nil {
						break // it was killed before it could answer
					}
					if s.Problem.Code != "" {
						t.Fatalf("%+v", s)
					}
					if acknowledged = max(acknowledged, s.Next); acknowledged > enough && n.Cmd != nil {
						cmd := n.Cmd
						n.Cmd = nil
						go func() { // while the next ones come in
							_ = cmd.Process.Kill()
							killed <- cmd.Wait()
						}()
					}
				}
				if err := <-killed; err == nil {
					t.Fatal("the node was to be killed")
				}
			}
			n.Start(t)
			if next := n.Delivered(t, receipts, 50); next != 121 {
				t.Errorf("the node wants receipt %d", next)
			}
			if c := n.Scored(t, receipts[119]); c.HeadNumber != 120 || c.HeadHash != evidence.HashToken(receipts[119]) {
				t.Errorf("the score is of %+v", c)
			}
		})
	}
}

func TestNodeReload(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t, "confine: {read: [owners]}\n")
	other := gatetest.NewAt(t, time.Now().Add(-3*time.Hour).Truncate(time.Second))
	other.Observe(t)
	check.Must(t, os.MkdirAll(n.At("owners/two"), 0o700))
	other.Files(t, n.At("owners/two"))
	other.WriteBundle(t, n.At("owners/two/bundle.json"), other.Certificates[evidence.PurposeInteraction])
	n.Start(t)
	s := other.Session(t, "ses_2")
	s.Call(t, nil)
	code := func() string {
		t.Helper()
		is, err := n.Deliver(t, s.Receipts...)
		check.Must(t, err)
		return is.Problem.Code
	}
	edit := func(old, new string) {
		t.Helper()
		kit.Edit(t, n.At("one.yaml"), old, new)
	}
	reload := func(want string) { t.Helper(); n.Reload(t, want) }
	const second = "  - {name: two, registry: owners/two/registry.jwk, bundle: owners/two/bundle.json, certificates: " +
		"{issuers: [key-registry], audiences: [posting-api]}, " +
		"receipts: {issuers: [mediator-observer], audiences: [posting-api], keys: [interaction-receipt-key]}}\nbelievedHosts"
	if got := code(); got != "owner_unknown" {
		t.Errorf("receipts of an owner that is not known: %s", got)
	}
	edit("believedHosts", strings.Replace(second, "two/bundle", "two/absent", 1))
	reload("no such file or directory (reload_refused)")
	edit("two/absent", "two/bundle")
	edit("issuer: mediator-appraiser", "issuer: other")
	reload("keys.appraiser.issuer (restart_required)")
	if got := code(); got != "owner_unknown" {
		t.Errorf("after reloads that were refused: %s", got)
	}
	edit("issuer: other", "issuer: mediator-appraiser")
	edit("believedHosts: [api.openai.com]", "believedHosts: [other.example]")
	reload("")
	if got := code(); got != "" {
		t.Errorf("receipts of the new owner: %s", got)
	}
	if c := n.Scored(t, s.Receipts[0]); c.N != 0 || c.OtherCalls != 1 {
		t.Errorf("%d calls count and %d do not, after the host of their model was taken out", c.N, c.OtherCalls)
	}
	edit(strings.TrimSuffix(second, "believedHosts"), "")
	reload("")
	s.Call(t, nil)
	if got := code(); got != "owner_unknown" {
		t.Errorf("receipts of an owner that was taken out: %s", got)
	}
	elsewhere := t.TempDir()
	other.Files(t, elsewhere)
	edit("believedHosts", strings.ReplaceAll(second, "owners/two", elsewhere)) // a folder that it has taken from itself
	reload("restart_required")
}

func TestNodeReplicas(t *testing.T) {
	t.Parallel()
	store := nodeStores(t)["PostgreSQL"](t)
	one := kit.NewNode(t, store)
	two := one.Replica(t, store)
	one.Start(t)
	two.Start(t)
	receipts := one.Calls(t, "ses_1", 60)
	done := make(chan error, 2)
	for _, n := range []*kit.NodeRig{one, two} {
		go func() {
			for part := range slices.Chunk(receipts, 4) {
				for {
					s, err := n.Deliver(t, part...)
					if err != nil {
						done <- err
						return
					}
					if s.Problem.Code == "" {
						break
					}
					if s.Problem.Code != "overloaded" {
						done <- fmt.Errorf("%+v", s)
						return
					}
				}
			}
			done <- nil
		}()
	}
	for range 2 {
		check.Must(t, <-done)
	}
	for _, n := range []*kit.NodeRig{one, two} {
		if c := n.Scored(t, receipts[0]); c.HeadNumber != 60 || c.HeadHash != evidence.HashToken(receipts[59]) {
			t.Errorf("the score of the node %s is of %+v", n.Name, c)
		}
	}
}

func TestNodeLimits(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t, "limits: {sessions: 1, receipts: 3, publicPerSecond: 1000}\n")
	n.Start(t)
	for range 150 { // more than the default lets one address ask at once
		if status := n.Get(t, "/openapi.json", nil); status != http.StatusOK {
			t.Fatalf("the node answers %d", status)
		}
	}
	receipts := n.Calls(t, "ses_1", 4)
	n.Delivered(t, receipts[:2], 2)
	for what, further := range map[string][]string{"a second session": n.Calls(t, "ses_2", 1),
		"a fourth receipt": receipts[2:]} {
		if s, err := n.Deliver(t, further...); err != nil || s.Problem.Code != "owner_full" {
			t.Errorf("%s: %+v, %v", what, s, err)
		}
	}
	if next := n.Delivered(t, receipts[2:3], 1); next != 4 {
		t.Errorf("the node wants receipt %d", next)
	}
}

func TestMain(m *testing.M) { kit.Main(m, nil) }
