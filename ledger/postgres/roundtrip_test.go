package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
)

// A message to the server after one from it begins a round trip.
func roundTrips(t *testing.T, dsn string) (through string, count *atomic.Int64) {
	t.Helper()
	u, err := url.Parse(dsn)
	check.Must(t, err)
	const socket = ".s.PGSQL.5432"
	host, dir := u.Query().Get("host"), t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, socket))
	check.Must(t, err)
	count = new(atomic.Int64)
	var relays sync.WaitGroup
	relay := func(client, server net.Conn) {
		var answered atomic.Bool
		answered.Store(true)
		copyAll := func(to, from net.Conn, note func()) {
			defer to.Close()
			b := make([]byte, 32<<10)
			for {
				n, err := from.Read(b)
				if err != nil {
					return
				}
				note()
				if _, err := to.Write(b[:n]); err != nil {
					return
				}
			}
		}
		relays.Go(func() { copyAll(client, server, func() { answered.Store(true) }) })
		relays.Go(func() {
			copyAll(server, client, func() {
				if answered.Swap(false) {
					count.Add(1)
				}
			})
		})
	}
	relays.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", filepath.Join(host, socket))
			if err != nil {
				client.Close()
				return
			}
			relay(client, server)
		}
	})
	t.Cleanup(func() { l.Close(); relays.Wait() })
	return strings.ReplaceAll(dsn, url.QueryEscape(host), url.QueryEscape(dir)), count
}

// Many records take as many round trips as one.
func TestRoundTrips(t *testing.T) {
	ctx := context.Background()
	dsn, trips := roundTrips(t, database(t))
	l := open(t, dsn, "one")
	counted := func(name string, n int) int64 {
		var outcomes, records []ledger.Record
		for i := range n {
			begun, read := post(fmt.Sprintf("begun_%s_%d", name, i)), post(fmt.Sprintf("read_%s_%d", name, i))
			check.Must(t, l.Begin(ctx, begun))
			begun.State, read.State = ledger.StateForwarded, ledger.StateForwarded
			outcomes, records = append(outcomes, begun), append(records, read)
		}
		before := trips.Load()
		check.Must(t, l.Write(ctx, outcomes, records))
		return trips.Load() - before
	}
	counted("first", 1) // prepares the statements of this connection
	one, many := counted("one", 1), counted("many", 200)
	if one == 0 || many != one {
		t.Errorf("one outcome and one record take %d round trips, 200 of each take %d", one, many)
	}
}

// TestManyOpenCalls: calls that wait for the database, however many a session has, leave posts and another session's
// calls its connections.
func TestManyOpenCalls(t *testing.T) {
	ctx, dsn := context.Background(), database(t)
	l := open(t, dsn, "one")
	lock, err := connection(t, dsn).Begin()
	check.Must(t, err)
	const taken = `INSERT INTO actionproof.open_calls VALUES ('post_a', '', '', 0, '')`
	_, err = lock.Exec(taken)
	check.Must(t, err)
	call := func(id, session string) error {
		return l.OpenCalls(ctx, ledger.OpenCall{ID: id, Session: session, Started: ledgertest.Now(), Draft: "{}"})
	}
	ended := make(chan error, 65)
	for range 64 {
		go func() { ended <- call("post_a", "ses_a") }()
	}
	time.Sleep(500 * time.Millisecond) // a slow machine may find nothing
	others := make(chan error, 1)
	go func() { others <- errors.Join(l.Begin(ctx, post("post_b")), call("post_c", "ses_b")) }()
	select {
	case err := <-others:
		check.Must(t, err)
	case err := <-ended:
		t.Errorf("others wait until one of the calls ends with %v", err)
		ended <- nil
	}
	check.Must(t, lock.Rollback())
	for range 64 {
		<-ended
	}
}
