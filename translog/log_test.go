package translog_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/leaktest"
	"github.com/actionproof/mediator/test/logtest"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { leaktest.Main(m) }

var now = time.UnixMilli(1764378000123)

func open(t testing.TB, path string) *sqlite.Ledger {
	t.Helper()
	l, err := sqlite.Open(context.Background(), path, sqlite.Options{Now: time.Now, Logged: func() {}})
	check.Must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func options(t testing.TB, p *translog.Policy) translog.Options {
	return translog.Options{Key: key(t, "L"), Policy: p, Now: time.Now, Interval: time.Millisecond,
		Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		Failed: func(err error) { t.Log(err) }}
}

func start(t testing.TB, store ledger.Log, p *translog.Policy) *translog.Log {
	t.Helper()
	l, err := translog.New(t.Context(), store, options(t, p))
	check.Must(t, err)
	return l
}

// add stores leaves of posts from the number from on.
func add(t testing.TB, store ledger.Log, from, n int) {
	t.Helper()
	var all []ledger.Leaf
	for i := from; i < from+n; i++ {
		id := fmt.Sprintf("post_%d", i)
		all = append(all, leaf.New(leaf.Intent, now, leaf.Document{Post: id}).Leaf(id))
	}
	check.Must(t, store.AddLeaves(t.Context(), all...))
}

func intent(i int) string { return leaf.ID(leaf.Intent, fmt.Sprintf("post_%d", i)) }

// TestLog grows a log in steps across the borders of its tiles. Others' programs read all of it.
func TestLog(t *testing.T) {
	store := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	log := start(t, store, policy(t, "quorum none"))
	server := httptest.NewServer(translog.Handler(strict{store, t}))
	defer server.Close()
	client := server.Client()
	defer client.CloseIdleConnections()
	fetcher, err := torchwood.NewTileFetcher(server.URL, torchwood.WithHTTPClient(client))
	check.Must(t, err)
	theirs, err := torchwood.NewClient(fetcher)
	check.Must(t, err)
	var last torchwood.Checkpoint
	size := 0
	for _, n := range []int{0, 1, 254, 1, 1, 255, 1, 1100} {
		add(t, store, size, n)
		check.Must(t, log.Publish(t.Context()), log.Publish(t.Context()))
		size += n
		signed, err := fetcher.ReadEndpoint(t.Context(), "checkpoint")
		check.Must(t, err)
		c, _, err := torchwood.VerifyCheckpoint(signed, policy(t, "quorum none"))
		check.Must(t, err)
		if c.N != int64(size) {
			t.Fatalf("%d entries of %d", c.N, size)
		}
		tree := torchwood.TileHashReaderWithContext(t.Context(), c.Tree, fetcher)
		if last.N > 0 {
			p, err := tlog.ProveTree(c.N, last.N, tree)
			check.Must(t, err, tlog.CheckTree(p, c.N, c.Hash, last.N, last.Hash))
		}
		read := int64(0)
		for i, entry := range theirs.AllEntries(t.Context(), c.Tree, 0) {
			f, err := store.Leaf(t.Context(), intent(int(i)))
			if err != nil || i != read || f.Index != i || f.Entry != string(entry) {
				t.Fatalf("the entry %d is %s, want %+v, %v", i, entry, f, err)
			}
			read++
		}
		if check.Must(t, theirs.Err()); read != c.N {
			t.Errorf("%d entries were read of %d", read, c.N)
		}
		last = c
	}
	for _, i := range []int{0, 255, 256, 511, 512, size - 1} {
		text, err := translog.Prove(t.Context(), store, intent(i))
		check.Must(t, err)
		v, err := policy(t, "quorum none").Verify(text)
		check.Must(t, err)
		if v.Index != int64(i) || v.Witnesses != nil {
			t.Errorf("got %+v", v)
		}
	}
	add(t, store, size, 1)
	_, err = translog.Prove(t.Context(), store, intent(size)) // which has no number yet
	check.WantCode(t, err, "log_unwitnessed")
	for path, want := range map[string]int{"/tile/0/000": 200, "/tile/0/006.p/77": 200, "/tile/0/006.p/78": 404,
		"/tile/0/006": 404, "/tile/1/000.p/6": 200, "/tile/entries/006.p/77": 200, "/tile/entries/000": 200,
		"/tile/0/0": 404, "/tile/0/000.p/0": 404, "/tile/8/0/000": 404, "/tile/data/000": 404, "/": 404,
		"/tile/63/000": 404, "/tile/64/000": 404, "/tile/4611686018427387904/000": 404} {
		response, err := client.Get(server.URL + path)
		check.Must(t, err, response.Body.Close())
		if response.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, response.StatusCode, want)
		}
	}
}

// strict fails a test in which a tile is asked for that no tree has.
type strict struct {
	ledger.LogReader
	t *testing.T
}

func (s strict) Tiles(ctx context.Context, tiles []ledger.Tile) error {
	if tiles[0].Level > 63 {
		s.t.Errorf("the level %d is asked for", tiles[0].Level)
	}
	return s.LogReader.Tiles(ctx, tiles)
}

// TestDamage refuses to go on from a tree that is not the one that was signed.
func TestDamage(t *testing.T) {
	for name, tt := range map[string]struct {
		damage, want string
	}{
		"put back":       {`UPDATE tree SET size = 299, root = x'` + strings.Repeat("00", 32) + `'`, "299 entries"},
		"a changed tile": {`UPDATE tiles SET data = zeroblob(length(data)) WHERE level = 0 AND n = 1`, ""},
		"another root":   {`UPDATE tree SET root = x'` + strings.Repeat("00", 32) + `'`, ""},
		"another signature": {`UPDATE tree SET signed = substr(signed, 1, length(signed) - 6) || 'AAAA=' || char(10)`,
			"not its own"},
		"a larger one of another log": {`UPDATE tree SET signed_size = 301, signed = replace(replace(signed, '300', '301'),
			'log.example', 'log.other')`, "not its own"},
		"another checkpoint": {`UPDATE tree SET accepted = replace(accepted, '300', '299')`, "not its own"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			store := open(t, path)
			add(t, store, 0, 300)
			p := policy(t, "quorum none")
			check.Must(t, start(t, store, p).Publish(t.Context()))
			start(t, store, p)
			check.Must(t, store.Close())
			db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
			check.Must(t, err)
			_, err = db.Exec(tt.damage)
			check.Must(t, err, db.Close())
			store = open(t, path)
			_, err = translog.New(t.Context(), store, options(t, p))
			check.WantCode(t, err, "log_contradicted", tt.want)
		})
	}
	t.Run("an endless tree", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ledger.db")
		check.Must(t, open(t, path).Close())
		db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
		check.Must(t, err)
		_, err = db.Exec(`UPDATE tree SET size = 9223372036854775807`)
		check.Must(t, err, db.Close())
		store := open(t, path)
		add(t, store, 0, 1)
		if n, err := store.Integrate(t.Context(), 1, translog.Grow); n != 0 {
			t.Errorf("got %d, %v", n, err)
		}
		_, _, err = store.TreeHead(t.Context())
		check.WantCode(t, err, "ledger_unavailable")
	})
	t.Run("another key", func(t *testing.T) {
		store := open(t, filepath.Join(t.TempDir(), "ledger.db"))
		check.Must(t, start(t, store, policy(t, "quorum none")).Publish(t.Context()))
		o := options(t, translog.Unwitnessed(key(t, "M")))
		o.Key = key(t, "M")
		_, err := translog.New(t.Context(), store, o)
		check.WantCode(t, err, "log_contradicted")
	})
	t.Run("another tree", func(t *testing.T) {
		was, is := open(t, filepath.Join(t.TempDir(), "ledger.db")), open(t, filepath.Join(t.TempDir(), "ledger.db"))
		add(t, was, 0, 300)
		p := policy(t, "quorum none")
		check.Must(t, start(t, was, p).Publish(t.Context()))
		_, c, err := was.TreeHead(t.Context())
		check.Must(t, err)
		add(t, is, 1, 301) // without the first one
		_, err = is.Integrate(t.Context(), 1000, translog.Grow)
		check.Must(t, err, is.PutCheckpoints(t.Context(), c))
		_, err = translog.New(t.Context(), is, options(t, p))
		check.WantCode(t, err, "log_contradicted", "another one")
	})
	t.Run("put back, and grown by another process", func(t *testing.T) {
		p := policy(t, "quorum none")
		for _, other := range []int{300, 301} {
			in := &moved{open(t, filepath.Join(t.TempDir(), "ledger.db"))}
			log := start(t, in, p)
			add(t, in, 0, 300)
			check.Must(t, log.Publish(t.Context()))
			in.Log = open(t, filepath.Join(t.TempDir(), "ledger.db"))
			add(t, in, 1, other) // without the first one
			check.Must(t, start(t, in, p).Publish(t.Context()))
			check.WantCode(t, log.Publish(t.Context()), "log_contradicted", "another one")
		}
	})
	t.Run("while it runs", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ledger.db")
		store := open(t, path)
		log := start(t, store, policy(t, "quorum none"))
		add(t, store, 0, 300)
		check.Must(t, log.Publish(t.Context()))
		db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
		check.Must(t, err)
		defer db.Close()
		_, err = db.Exec(`UPDATE tiles SET data = zeroblob(length(data)) WHERE level = 0 AND n = 1`)
		check.Must(t, err)
		add(t, store, 300, 1)
		check.WantCode(t, log.Publish(t.Context()), "log_contradicted")
		if f, err := store.Leaf(t.Context(), intent(300)); err != nil || f.Index != -1 {
			t.Errorf("the leaf has the number %d, %v", f.Index, err)
		}
	})
}

// moved is a store that can be replaced by another.
type moved struct{ ledger.Log }

// TestRun: leaves get their numbers without anybody asking, and who waits for one gets it.
func TestRun(t *testing.T) {
	store := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	log := start(t, store, policy(t, "quorum none"))
	run(t, log)
	for i := range 20 {
		add(t, store, i, 1)
		log.Wake()
		check.Must(t, log.Wait(t.Context(), intent(i)))
	}
	if s, err := log.Status(t.Context()); err != nil || s.Accepted.Size < 21 { // with a heartbeat
		t.Errorf("got %+v, %v", s, err)
	}
	if err := log.Wait(t.Context(), intent(20)); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("who waits for nothing gets %v", err)
	}
}

// TestFalseNumber: the number of a leaf in the ledger does not show that the log holds it.
func TestFalseNumber(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	store := open(t, path)
	log := start(t, store, policy(t, "quorum none"))
	add(t, store, 0, 3)
	check.Must(t, log.Publish(t.Context()), log.Wait(t.Context(), intent(1)))
	add(t, store, 3, 1)
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	check.Must(t, err)
	defer db.Close()
	_, err = db.Exec(`UPDATE leaves SET number = 99 WHERE id = '` + intent(1) + `'`)
	check.Must(t, err)
	for _, entry := range []string{"entry", "(SELECT entry FROM leaves WHERE id = '" + intent(1) + "')"} {
		_, err = db.Exec(`UPDATE leaves SET number = 1, entry = ` + entry + ` WHERE id = '` + intent(3) + `'`)
		check.Must(t, err)
		check.WantCode(t, log.Wait(t.Context(), intent(3)), "log_contradicted")
	}
}

// TestUpdate writes the golden files, if -update asks for it.
func TestUpdate(t *testing.T) {
	if !*update {
		t.Skip("only with -update")
	}
	var lines bytes.Buffer
	sum := func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
	for i, kind := range leaf.Kinds {
		d := []leaf.Document{{Session: "ses_1"},
			{Post: "post_1", Session: "ses_1", Record: sum("record"), RequestProof: sum("proof")},
			{Post: "post_1", Session: "ses_1", Record: sum("whole"), State: "forwarded", Status: 201,
				Code: "\u2028 \"quoted\" \\ \n <&> \U0001F600"},
			{Session: "ses_1"}, {Bundle: sum("bundle"), Manifest: sum("manifest")}, {}}[i]
		fmt.Fprintf(&lines, "%s\n", leaf.New(kind, now, d).Encode())
	}
	check.Must(t, os.WriteFile("leaf/testdata/openings.jsonl", lines.Bytes(), 0o600))
	w := logtest.NewWitness(t, "W")
	text := "log " + key(t, "L").String() + "\nwitness other " + w.Key + "\nquorum other\n"
	check.Must(t, os.WriteFile("testdata/policy", []byte(text), 0o600))
	store := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	log := start(t, store, policy(t, "witness other "+w.Key+" "+w.Serve(t), "quorum other"))
	add(t, store, 0, 516)
	run(t, log)
	check.Must(t, log.Wait(t.Context(), intent(515)))
	proof, err := translog.Prove(t.Context(), store, intent(300))
	check.Must(t, err, os.WriteFile("testdata/intent.tlog-proof", proof, 0o600))
}

// run runs the log until the test ends, or stop is called.
func run(t testing.TB, log *translog.Log) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); log.Run(ctx) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

// TestOtherIntent: who writes the ledger can put another intent in the place of a post's before witnesses see it.
func TestOtherIntent(t *testing.T) {
	r := ledger.Record{ID: "post_0", Flow: "post", State: ledger.StateForwarding, Host: "api.example:443",
		Started: time.Now(), Artifacts: []ledger.Artifact{{Name: "requestProof", Token: "a.b.c"}}}
	other := r
	other.Host = "other.example:443"
	for name, tt := range map[string]struct {
		put  ledger.Record
		when time.Time
		with string // is stored beside the entry, or the entry's own opening
	}{
		"the same":             {r, time.Now(), ""},
		"another record":       {other, time.Now(), ""},
		"an earlier time":      {r, time.Now().Add(-time.Hour), ""},
		"a later time":         {r, time.Now().Add(time.Hour), ""},
		"no opening":           {r, time.Now(), "{}"},
		"the former's opening": {other, time.Now(), "own"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			store := open(t, path)
			log := start(t, store, policy(t, "quorum none"))
			check.Must(t, store.Begin(t.Context(), r))
			own, err := store.Leaf(t.Context(), intent(0))
			check.Must(t, err)
			o, err := leaf.OfIntent(tt.put, tt.when)
			check.Must(t, err)
			put := o.Leaf(r.ID)
			switch tt.with {
			case "":
			case "own":
				put.Opening = own.Opening
			default:
				put.Opening = tt.with
			}
			db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
			check.Must(t, err)
			defer db.Close()
			_, err = db.Exec(`UPDATE leaves SET entry = ?, opening = ? WHERE id = ?`, put.Entry, put.Opening, put.ID)
			check.Must(t, err, log.Publish(t.Context()), log.Wait(t.Context(), intent(0)))
			if err = log.WaitFor(t.Context(), r); name == "the same" {
				check.Must(t, err)
			} else {
				check.WantCode(t, err, "log_contradicted")
			}
		})
	}
}

// TestFalseSize: an old checkpoint does not pass for the newest because the ledger says that it is as large.
func TestFalseSize(t *testing.T) {
	for _, of := range []string{"signed", "accepted"} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		store := open(t, path)
		p := policy(t, "quorum none")
		log := start(t, store, p)
		add(t, store, 0, 3)
		check.Must(t, log.Publish(t.Context()))
		db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
		check.Must(t, err)
		defer db.Close()
		add(t, store, 3, 1)
		_, err = db.Exec(`UPDATE tree SET ` + of + `_size = 4`)
		check.Must(t, err)
		before := log.Progress()
		check.WantCode(t, log.Publish(t.Context()), "log_contradicted")
		if s := log.Progress(); s.Accepted != before.Accepted || s.Since != before.Since {
			t.Errorf("%s: the checkpoint %+v is accepted", of, s.Accepted)
		}
		_, err = translog.New(t.Context(), store, options(t, p))
		check.WantCode(t, err, "log_contradicted")
	}
}
