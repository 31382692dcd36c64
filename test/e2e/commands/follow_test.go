package commands

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

// TestFollow: a followed list begins with the newest records, and then shows each call once, when it has ended.
func TestFollow(t *testing.T) {
	t.Parallel()
	l, _ := fillLedger(t, 30)
	at := serveRecords(t, l)
	read, write := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- program.Run(ctx, []string{"posts", "list", "--follow", "--json", "--limit", "3", "--admin", at},
			strings.NewReader(""), write, io.Discard)
		_ = write.Close()
	}()
	lines := bufio.NewScanner(read)
	lines.Buffer(nil, 1<<20)
	want := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			var r ledger.Record
			if !lines.Scan() || json.Unmarshal(lines.Bytes(), &r) != nil || r.ID != id {
				t.Fatalf("%q, want %s", lines.Text(), id)
			}
		}
	}
	want("post_00027", "post_00028", "post_00029")
	r := ledger.Record{ID: "post_slow", Flow: "post", Method: "POST", Host: "api.example.com:443", Path: "/posts",
		Started: time.Now()}
	check.Must(t, l.Begin(t.Context(), r))
	for i := range 3 { // after the slow one, and ended before it
		quick := ledger.Record{ID: fmt.Sprint("post_quick", i), Flow: "egress", State: ledger.StateForwarded,
			Started: time.Now().Add(time.Duration(i) * time.Millisecond)}
		check.Must(t, l.Add(t.Context(), quick))
		want(quick.ID)
	}
	r.State, r.Finished = ledger.StateForwarded, time.Now()
	check.Must(t, l.Finish(t.Context(), r))
	want("post_slow")
	stop()
	if lines.Scan() {
		t.Errorf("there is more: %s", lines.Text())
	}
	if status := <-ended; status != program.Done {
		t.Errorf("interrupted, it ends with status %d", status)
	}
}
