package witness_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	"go.uber.org/zap"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

// nodeLog is the public log of a node.
type nodeLog struct {
	*nodetest.Node
	from *torchwood.TileFetcher
}

func newNodeLog(t *testing.T, k *gatetest.Kit) nodeLog {
	t.Helper()
	n := nodetest.New(t, k, nil)
	s := httptest.NewServer(api.Handler(n.Service, api.Options{Now: time.Now, Log: zap.NewNop()}))
	t.Cleanup(s.Close)
	from, err := torchwood.NewTileFetcher(s.URL + "/v1/disputes/log")
	check.Must(t, err)
	return nodeLog{n, from}
}

func (n nodeLog) publish(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		_, err := n.Publish(t.Context(), n.Says(t, n.SignalOf(n.Agent(t, "agent:one").String(), id)))
		check.Must(t, err)
	}
}

// feed takes the log's checkpoint to a witness that has cosigned size entries, as a feeder does that knows only public
// data.
func (n nodeLog) feed(t *testing.T, url string, size int64) (status int, answer, signed string, now int64) {
	t.Helper()
	text, err := n.from.ReadEndpoint(t.Context(), "checkpoint")
	check.Must(t, err)
	unsigned, _, _ := strings.Cut(string(text), "\n\n")
	c, err := torchwood.ParseCheckpoint(unsigned + "\n")
	check.Must(t, err)
	var body bytes.Buffer
	fmt.Fprintf(&body, "old %d\n", size)
	if size > 0 && size < c.N {
		p, err := tlog.ProveTree(c.N, size, torchwood.TileHashReaderWithContext(t.Context(), c.Tree, n.from))
		check.Must(t, err)
		for _, h := range p {
			fmt.Fprintf(&body, "%s\n", h)
		}
	}
	fmt.Fprintf(&body, "\n%s", text)
	resp, err := http.Post(url+"/add-checkpoint", "text/plain", &body)
	check.Must(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp.StatusCode, string(raw), string(text), c.N
}

// TestNode: an outside witness cosigns the log of a node's disputes, and refuses another log under its key.
func TestNode(t *testing.T) {
	k := gatetest.New(t)
	n := newNodeLog(t, k)
	log, err := n.DisputeLog()
	check.Must(t, err)
	named, err := log.Key(t.Context())
	check.Must(t, err)
	line, _ := witness(t, "w", t.TempDir(), named)
	p, err := torchwood.ParsePolicy([]byte("log " + named.String() + "\n" + line + "\nquorum w\n"))
	check.Must(t, err)
	url := line[strings.Index(line, "http://"):]
	size := int64(0)
	for _, ids := range [][]string{{"s-1", "s-2", "s-3"}, {"s-4"}, {"s-5", "s-6"}} {
		n.publish(t, ids...)
		status, answer, signed, now := n.feed(t, url, size)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		if _, _, err := torchwood.VerifyCheckpoint([]byte(signed), p); err == nil {
			t.Error("a checkpoint counts without the witness")
		}
		_, _, err := torchwood.VerifyCheckpoint([]byte(signed+answer), p)
		check.Must(t, err)
		size = now
	}
	fork := newNodeLog(t, k)
	fork.publish(t, "s-1", "s-2", "other", "s-4", "s-5", "s-6", "s-7")
	if status, answer, _, _ := fork.feed(t, url, size); status != http.StatusUnprocessableEntity {
		t.Errorf("a fork: %d %s", status, answer)
	}
	old := newNodeLog(t, k)
	old.publish(t, "s-1", "s-2")
	if status, answer, _, _ := old.feed(t, url, 0); status != http.StatusConflict {
		t.Errorf("an older state: %d %s", status, answer)
	}
}
