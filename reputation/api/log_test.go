package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

const logPath = "/v1/disputes/log"

// reader reads a node's log as a stranger does, with torchwood and x/mod.
type reader struct {
	torchwood.TileReader
	policy torchwood.Policy
}

func readerOf(t *testing.T, c *caller) reader {
	t.Helper()
	var named struct{ Key string }
	c.get(logPath, &named)
	by, err := note.NewVerifier(named.Key)
	must(t, err)
	served := httptest.NewServer(c.handler)
	t.Cleanup(served.Close)
	from, err := torchwood.NewTileFetcher(served.URL + logPath)
	must(t, err)
	return reader{from, torchwood.ThresholdPolicy(2, torchwood.OriginPolicy(nodetest.Audience),
		torchwood.SingleVerifierPolicy(by))}
}

// checkpoint returns the verified state of the log.
func (r reader) checkpoint(t *testing.T) (tree tlog.Tree, signed []byte) {
	t.Helper()
	signed, err := r.ReadEndpoint(t.Context(), "checkpoint")
	must(t, err)
	c, _, err := torchwood.VerifyCheckpoint(signed, r.policy)
	must(t, err)
	return c.Tree, signed
}

func (r reader) hashes(ctx context.Context, tree tlog.Tree) tlog.HashReader {
	return torchwood.TileHashReaderWithContext(ctx, tree, r)
}

// grows checks that the log began with an earlier tree.
func (r reader) grows(t *testing.T, from, to tlog.Tree) error {
	t.Helper()
	p, err := tlog.ProveTree(to.N, from.N, r.hashes(t.Context(), to))
	must(t, err)
	return tlog.CheckTree(p, to.N, to.Hash, from.N, from.Hash)
}

func publish(t *testing.T, n *nodetest.Node, name string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		agent := n.Agent(t, fmt.Sprint("agent:", i/dispute.MaxRunning)).String()
		_, err := n.Publish(t.Context(), n.Says(t, n.SignalOf(agent, fmt.Sprint(name, i))))
		must(t, err)
	}
}

func TestLog(t *testing.T) {
	kit := gatetest.New(t)
	c := callerOf(t, nodetest.New(t, kit, nil))
	log := readerOf(t, c)
	empty, _ := log.checkpoint(t)
	publish(t, c.node, "s-", 0, 2)
	early, _ := log.checkpoint(t)
	publish(t, c.node, "s-", 2, 258)
	late, signed := log.checkpoint(t)
	if empty.N != 0 || early.N != 2 || late.N != 258 {
		t.Fatalf("%v, %v, %v", empty, early, late)
	}
	must(t, log.grows(t, early, late))

	client, err := torchwood.NewClient(log)
	must(t, err)
	book := dispute.NewBook()
	for i, raw := range client.AllEntries(t.Context(), late, 0) {
		e, err := dispute.ParseEntry(raw)
		must(t, err)
		_, err = book.Add(e)
		must(t, err)
		if i != 1 && i != 257 {
			continue
		}
		p, err := tlog.ProveRecord(late.N, i, log.hashes(t.Context(), late))
		must(t, err, tlog.CheckRecord(p, late.N, late.Hash, i, tlog.RecordHash(raw)),
			torchwood.VerifyProof(log.policy, tlog.RecordHash(raw), torchwood.FormatProof(i, p, signed)))
		other := tlog.RecordHash([]byte("another entry"))
		if torchwood.VerifyProof(log.policy, other, torchwood.FormatProof(i, p, signed)) == nil {
			t.Error("another entry is proven")
		}
	}
	must(t, client.Err())
	if head := book.Tree().Head(); head.Size != late.N || tlog.Hash(head.Root) != late.Hash {
		t.Errorf("%+v, and its entries give %+v", late, head)
	}

	// The same key signs a log that differs from the second entry on.
	forked := callerOf(t, nodetest.New(t, kit, nil))
	publish(t, forked.node, "s-", 0, 1)
	publish(t, forked.node, "other-", 1, 259)
	fork := readerOf(t, forked)
	longer, _ := fork.checkpoint(t)
	for _, before := range []tlog.Tree{early, late} {
		if fork.grows(t, before, longer) == nil {
			t.Errorf("the log with %d entries goes on as another", before.N)
		}
	}

	for path, want := range map[string]int{"/tile/0/000": 200, "/tile/0/001.p/2": 200, "/tile/1/000.p/1": 200,
		"/tile/entries/001.p/2": 200, "/tile/0/001.p/3": 404, "/tile/0/001": 404, "/tile/2/000.p/1": 404,
		"/tile/0/x999/x999/x999/x999/999": 404, "/tile/entries/x999/x999/x999/x999/999": 404, "/tile/0/0": 404} {
		if w, _ := c.do(http.MethodHead, logPath+path, "", nil); w.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, w.StatusCode, want)
		}
	}
	for _, path := range []string{"", "/checkpoint", "/tile/0/000"} {
		c.refused("node_method", http.MethodPost, logPath+path, "", nil)
	}
}
