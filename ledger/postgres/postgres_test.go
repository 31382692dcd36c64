package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/leaktest"
	"github.com/actionproof/mediator/test/ledgertest"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

var start = sync.OnceValues(func() (_ *pgtest.Server, err error) {
	shared, err = pgtest.Launch("max_connections=500")
	return shared, err
})

type tests struct{ *testing.M }

func (m tests) Run() int {
	code := m.M.Run()
	if shared != nil && shared.Close() != nil {
		return 1
	}
	return code
}

var shared *pgtest.Server // nil until it runs

func TestMain(m *testing.M) { leaktest.Main(tests{m}) }

func server(t testing.TB) *pgtest.Server {
	t.Helper()
	full.Only(t, "PostgreSQL")
	s, err := start()
	check.Must(t, err)
	return s
}

func database(t testing.TB) string {
	t.Helper()
	return server(t).Database(t)
}

func options(instance string) postgres.Options {
	return postgres.Options{Now: ledgertest.Now, Instance: instance}
}

func open(t testing.TB, dsn, instance string) *postgres.Ledger {
	t.Helper()
	l, err := postgres.Open(context.Background(), dsn, options(instance))
	check.Must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func connection(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	check.Must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

var _ = stdlib.GetDefaultDriver // registers pgx

func exec(t testing.TB, dsn, query string) {
	t.Helper()
	if _, err := connection(t, dsn).Exec(query); err != nil {
		t.Fatal(err)
	}
}

func key(id string) ledger.Key {
	return ledger.Key{Kind: "capability", ID: id, Expires: ledgertest.Now().Add(time.Minute)}
}

func post(id string) ledger.Record {
	return ledger.Record{ID: id, Flow: "post", Started: ledgertest.Now()}
}

type places struct{ dsns sync.Map }

func (p *places) open(t *testing.T, place string, retention time.Duration, logged func()) *postgres.Ledger {
	o := options("one")
	o.Retention, o.Logged = retention, logged
	return p.openWith(t, place, o)
}

func (p *places) openWith(t *testing.T, place string, o postgres.Options) *postgres.Ledger {
	t.Helper()
	dsn, ok := p.dsns.Load(place)
	if !ok {
		dsn = database(t)
		p.dsns.Store(place, dsn)
	}
	l, err := postgres.Open(t.Context(), dsn.(string), o)
	check.Must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	at := new(places)
	ledgertest.Run(t, func(t *testing.T, place string, retention time.Duration) ledger.Store {
		return at.open(t, place, retention, nil)
	})
}

func TestLog(t *testing.T) {
	t.Parallel()
	at := new(places)
	ledgertest.RunLog(t, func(t *testing.T, place string) ledgertest.Logging {
		return at.open(t, place, time.Hour, func() {})
	}, func(t *testing.T, place string) ledgertest.Logging { return at.open(t, place, time.Hour, nil) })
}

func TestExports(t *testing.T) {
	t.Parallel()
	at := new(places)
	ledgertest.RunExports(t, func(t *testing.T, place string, ended func()) ledgertest.Exporting {
		o := options("one")
		o.Retention, o.Ended = time.Hour, ended
		return at.openWith(t, place, o)
	})
}

// TestExportsOfReplicas lets each sidecar export its own calls, and in the end those of one that never came back.
func TestExportsOfReplicas(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	replica := func(name string) *postgres.Ledger {
		o := options(name)
		o.Ended = func() {}
		l, err := postgres.Open(t.Context(), dsn, o)
		check.Must(t, err)
		t.Cleanup(func() { l.Close() })
		return l
	}
	want := func(l *postgres.Ledger, ids ...string) {
		t.Helper()
		var got []string
		all, err := l.Unexported(t.Context(), 10)
		for _, r := range all {
			got = append(got, r.ID)
		}
		if err != nil || !slices.Equal(got, ids) {
			t.Errorf("got %v, %v, want %v", got, err, ids)
		}
	}
	one, two := replica("one"), replica("two")
	for i, l := range []*postgres.Ledger{one, two} {
		r := post(fmt.Sprint("post_", i+1))
		r.State = ledger.StateRefused
		check.Must(t, l.Add(t.Context(), r))
	}
	want(one, "post_1")
	want(two, "post_2")
	check.Must(t, two.Prune(t.Context(), ledgertest.Now().Add(23*time.Hour)))
	want(two, "post_2")
	later := post("post_3")
	later.State, later.Started = ledger.StateRefused, ledgertest.Now().Add(2*time.Hour)
	check.Must(t, one.Add(t.Context(), later), two.Prune(t.Context(), ledgertest.Now().Add(25*time.Hour)))
	want(one, "post_1", "post_3") // it is only behind
	check.Must(t, two.Prune(t.Context(), ledgertest.Now().Add(27*time.Hour)))
	want(one)
	want(two, "post_1", "post_2", "post_3")
}

func TestLogOfReplicas(t *testing.T) {
	dsn := database(t)
	instance := 0
	ledgertest.RunSharedLog(t, func(t *testing.T) ledgertest.Logging {
		instance++
		o := options(strconv.Itoa(instance))
		o.Logged = func() {}
		l, err := postgres.Open(t.Context(), dsn, o)
		check.Must(t, err)
		t.Cleanup(func() { l.Close() })
		return l
	})
}

func TestDeliveriesOfReplicas(t *testing.T) {
	dsn := database(t)
	instance := 0
	ledgertest.RunSharedDeliveries(t, func(t *testing.T) ledger.Store {
		instance++
		return open(t, dsn, strconv.Itoa(instance))
	})
}

func TestOpenCallsOfReplicas(t *testing.T) {
	dsn := database(t)
	one, two := open(t, dsn, "one"), open(t, dsn, "two")
	check.Must(t, one.OpenCalls(t.Context(),
		ledger.OpenCall{ID: "post_1", Session: "ses_1", Started: ledgertest.Now()}))
	mine, err := one.LeftOpen(t.Context())
	theirs, other := two.LeftOpen(t.Context())
	if err := errors.Join(err, other); err != nil || len(mine) != 1 || len(theirs) != 0 {
		t.Errorf("open: %v and %v, %v", mine, theirs, err)
	}
}

func TestReplicas(t *testing.T) {
	dsn := database(t)
	var replicas []*postgres.Ledger
	var opening sync.WaitGroup
	var mu sync.Mutex // guards replicas
	for i := range 3 {
		opening.Go(func() { // at once: one of them makes the tables
			l := open(t, dsn, fmt.Sprint("replica-", i))
			mu.Lock()
			defer mu.Unlock()
			replicas = append(replicas, l)
		})
	}
	opening.Wait()
	const clients, tokens = 64, 20
	won := make([]int, tokens) // guarded by mu
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for n := range tokens {
				// Every other one names the keys in the other order.
				keys := []ledger.Key{key(fmt.Sprint("a", n)), key(fmt.Sprint("b", n)), key(fmt.Sprint("c", n))}
				if client%2 == 1 {
					slices.Reverse(keys)
				}
				err := replicas[client%len(replicas)].Begin(context.Background(),
					post(fmt.Sprintf("post_%d_%d", client, n)), keys...)
				switch {
				case err == nil:
					mu.Lock()
					won[n]++
					mu.Unlock()
				case !errors.Is(err, ledger.ErrConsumed):
					t.Errorf("client %d: %v", client, err)
				}
			}
		})
	}
	all.Wait()
	for n, times := range won {
		if times != 1 {
			t.Errorf("the keys %d were consumed %d times", n, times)
		}
	}
	if posts, err := ledgertest.List(context.Background(), replicas[0], ledger.Query{}); err != nil ||
		len(posts) != tokens {
		t.Errorf("%d records, %v", len(posts), err)
	}
}

func TestNoDeadlock(t *testing.T) {
	dsn := database(t)
	l := open(t, dsn, "one")
	for round := range 5 {
		var keys []ledger.Key
		for i := range 3000 {
			keys = append(keys, key(fmt.Sprint(round, "-", i)))
		}
		backwards := slices.Clone(keys)
		slices.Reverse(backwards)
		errs := make(chan error, 2)
		for _, keys := range [][]ledger.Key{keys, backwards} {
			go func() { errs <- l.Consume(context.Background(), keys...) }()
		}
		first, second := <-errs, <-errs
		if first != nil {
			first, second = second, first
		}
		if first != nil || !errors.Is(second, ledger.ErrConsumed) {
			t.Errorf("got %v and %v", first, second)
		}
	}
}

func TestRestartOfOne(t *testing.T) {
	ctx := context.Background()
	dsn := database(t)
	a, b := open(t, dsn, "a"), open(t, dsn, "b")
	check.Must(t, a.Begin(ctx, post("post_a")), b.Begin(ctx, post("post_b")), a.Close())
	a = open(t, dsn, "a")
	for id, want := range map[string]ledger.State{"post_a": ledger.StateIndeterminate, "post_b": ledger.StateForwarding} {
		if p, err := a.Get(ctx, id); err != nil || p.State != want {
			t.Errorf("%s: got %s, %v, want %s", id, p.State, err, want)
		}
	}
	done := post("post_b")
	done.State = ledger.StateForwarded
	if err := b.Finish(ctx, done); err != nil {
		t.Error(err)
	}
}

func TestAbandoned(t *testing.T) {
	ctx := context.Background()
	dsn := database(t)
	gone, here := open(t, dsn, "gone"), open(t, dsn, "here")
	check.Must(t, gone.Begin(ctx, post("post_1")), gone.Close())
	for _, tt := range []struct {
		after time.Duration
		want  ledger.State
	}{{24 * time.Hour, ledger.StateForwarding}, {24*time.Hour + time.Second, ledger.StateIndeterminate}} {
		check.Must(t, here.Prune(ctx, ledgertest.Now().Add(tt.after)))
		if p, err := here.Get(ctx, "post_1"); err != nil || p.State != tt.want {
			t.Errorf("after %v: got %s, %v, want %s", tt.after, p.State, err, tt.want)
		}
	}
}

// By a clock that is years ahead: used keys stay refused on both.
func TestPruneTogether(t *testing.T) {
	ctx := context.Background()
	dsn := database(t)
	a, b := open(t, dsn, "a"), open(t, dsn, "b")
	var keys []ledger.Key
	for i := range 2500 {
		k := key(fmt.Sprint(i))
		k.Expires = k.Expires.Add(time.Duration(i%3) * time.Second)
		keys = append(keys, k)
	}
	check.Must(t, a.Consume(ctx, keys...))
	var all sync.WaitGroup
	for _, l := range []*postgres.Ledger{a, b} {
		all.Go(func() {
			if err := l.Prune(ctx, ledgertest.Now().AddDate(5, 0, 0)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := b.Prune(ctx, ledgertest.Now().AddDate(5, 0, 0)); err != nil { // one of them had nothing to do
		t.Fatal(err)
	}
	var left int
	if err := connection(t, dsn).QueryRow(`SELECT count(*) FROM actionproof.consumed`).Scan(&left); err != nil ||
		left != 0 {
		t.Errorf("%d keys are left, %v", left, err)
	}
	for _, l := range []*postgres.Ledger{a, b} {
		for _, k := range keys[:3] { // of each expiry
			wantUnavailable(t, l.Consume(ctx, k), "clock")
		}
	}
	later := key("later")
	later.Expires = later.Expires.Add(3 * time.Second)
	if err := b.Consume(ctx, later); err != nil {
		t.Errorf("what expires later is not refused: %v", err)
	}
}

func TestConsumeInATransaction(t *testing.T) {
	ctx := context.Background()
	dsn := database(t)
	l, db := open(t, dsn, "one"), connection(t, dsn)
	in := func(before string, commit bool) error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // does nothing after Commit
		if _, err := tx.Exec(before); err != nil {
			return err
		}
		if err := postgres.Consume(ctx, tx, key("a")); err != nil || !commit {
			return err
		}
		return tx.Commit()
	}
	wantUnavailable(t, in(`SET LOCAL synchronous_commit = off`, true), "synchronous_commit=off")
	wantUnavailable(t, in(`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`, true), "repeatable read")
	if err := errors.Join(in(`SELECT 1`, false), in(`SELECT 1`, true)); err != nil {
		t.Errorf("what was rolled back is not free: %v", err)
	}
	for _, err := range []error{in(`SELECT 1`, true), l.Consume(ctx, key("a"))} {
		if !errors.Is(err, ledger.ErrConsumed) {
			t.Errorf("got %v", err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	server := pgtest.Start(t)
	dsn := server.Database(t)
	l := open(t, dsn, "one")
	server.Kill(t)
	for range 5 { // the first ones may have a connection, which broke
		err := l.Begin(context.Background(), post("post_1"), key("a"))
		wantUnavailable(t, err, "ledger: ")
		for _, name := range []string{"postgres", "test1", ".s.PGSQL", "dial", "read unix"} {
			if strings.Contains(err.Error(), name) {
				t.Errorf("%v names %s", err, name)
			}
		}
		if strings.HasPrefix(err.Error(), "ledger: reach the database: ") {
			return
		}
	}
	t.Error("the database was never found away")
}

func TestUnstorable(t *testing.T) {
	ctx := context.Background()
	l := open(t, database(t), "one")
	for _, s := range []string{"post_\x00", "post_\xff"} {
		if _, err := l.Get(ctx, s); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("Get(%q): %v", s, err)
		}
		if posts, err := ledgertest.List(ctx, l, ledger.Query{Session: s}); err != nil || len(posts) != 0 {
			t.Errorf("List(%q): %v, %v", s, posts, err)
		}
		wantUnavailable(t, l.Consume(ctx, key(s)), "consume")
	}
}

func wantUnavailable(t *testing.T, err error, sentence string) {
	t.Helper()
	var e *ledger.Error
	if !errors.As(err, &e) || e.Code() != "ledger_unavailable" || !strings.Contains(err.Error(), sentence) {
		t.Errorf("got %v, want ledger_unavailable with %q", err, sentence)
	}
}
