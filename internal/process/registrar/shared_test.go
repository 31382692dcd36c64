package registrar

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

// TestShared: what one replica stores, the other has; and only one of them leads.
func TestShared(t *testing.T) {
	full.Only(t, "PostgreSQL")
	server, err := pgtest.Launch()
	check.Must(t, err)
	t.Cleanup(func() { check.Must(t, server.Close()) })
	dsn := server.Database(t)
	registry, _, err := keyring.GenerateRoot("registry", false)
	check.Must(t, err)
	open := func() *shared {
		s, err := openShared(t.Context(), dsn, t.TempDir(), registry)
		check.Must(t, err)
		t.Cleanup(func() { check.Must(t, s.Close()) })
		return s.(*shared)
	}
	one, two := open(), open()
	write := func(s *shared, content string, err error) error {
		return s.Edit(t.Context(), func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "trust.json"), []byte(content), 0o600),
				os.WriteFile(filepath.Join(dir, "trust-history-2.json"), []byte(content), 0o600),
				os.WriteFile(filepath.Join(dir, "own.pem"), []byte(content), 0o600), err)
		})
	}
	check.Must(t, write(one, "first", nil))
	before, err := two.Version(t.Context())
	check.Must(t, err)
	failed := errors.New("failed")
	if err := write(one, "never", failed); !errors.Is(err, failed) {
		t.Errorf("an edit that failed: %v", err)
	}
	check.Must(t, two.Edit(t.Context(), func(dir string) error {
		raw, err := os.ReadFile(filepath.Join(dir, "trust.json"))
		if string(raw) != "first" {
			t.Errorf("the other replica has %q", raw)
		}
		return err
	}))
	for _, off := range []time.Duration{-time.Hour, time.Hour} { // of a replica that was suspended, or has no NTP
		two.now = func() time.Time { return time.Now().Add(off) }
		check.WantCode(t, write(two, "never", nil), "clock_skew")
	}
	two.now = time.Now
	heard := make(chan struct{}, 16)
	go one.Watch(t.Context(), func() { heard <- struct{}{} }, func(err error) { t.Log(err) })
	<-heard // it listens
	check.Must(t, write(two, "second", nil))
	<-heard
	after, err := one.Version(t.Context())
	raw, bad := one.Read(t.Context(), "trust.json")
	if err != nil || bad != nil || after == before || string(raw) != "second" {
		t.Errorf("%q, %v, %v; the version before is %s, and %s after", raw, err, bad, before, after)
	}
	if _, err := one.Read(t.Context(), "own.pem"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a replica's own file is shared: %v", err)
	}

	leads := make(chan *shared, 2)
	first, stop := context.WithCancel(t.Context())
	for _, s := range []*shared{one, two} {
		ctx := t.Context()
		if s == one {
			ctx = first
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Lead(ctx, func(ctx context.Context) error {
				if s == two && first.Err() == nil {
					t.Error("two replicas lead")
				}
				leads <- s
				<-ctx.Done()
				return nil
			})
		}()
		if s == one {
			if got := <-leads; got != one {
				t.Error("another replica leads")
			}
		}
		t.Cleanup(func() { <-done })
	}
	stop()
	if got := <-leads; got != two {
		t.Error("the other replica does not lead next")
	}
}

// TestFrozen: a replica that leads and falls silent loses the lead.
func TestFrozen(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t).Database(t)
	registry, _, err := keyring.GenerateRoot("registry", false)
	check.Must(t, err)
	var both [2]*shared
	for i := range both {
		s, err := openShared(t.Context(), dsn, t.TempDir(), registry)
		check.Must(t, err)
		t.Cleanup(func() { check.Must(t, s.Close()) })
		both[i] = s.(*shared)
	}
	frozen, err := both[0].db.Read().Conn(t.Context())
	check.Must(t, err)
	defer frozen.Close()
	if got, err := takeLead(t.Context(), frozen); err != nil || !got {
		t.Fatalf("%t, %v", got, err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	led := false
	check.Must(t, both[1].Lead(ctx, func(context.Context) error { led = true; stop(); return nil }))
	if !led {
		t.Error("the other replica never leads")
	}
}

// TestStale: an edit whose transaction has ended, as after a long pause, undoes no change of another replica, even if
// its own process begins the next edit meanwhile.
func TestStale(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t).Database(t)
	registry, _, err := keyring.GenerateRoot("registry", false)
	check.Must(t, err)
	var both [2]*shared
	for i := range both {
		s, err := openShared(t.Context(), dsn, t.TempDir(), registry)
		check.Must(t, err)
		t.Cleanup(func() { check.Must(t, s.Close()) })
		both[i] = s.(*shared)
	}
	one, two := both[0], both[1]
	edit := func(s *shared, do func(dir string) error) <-chan error {
		done := make(chan error, 1)
		go func() { done <- s.Edit(t.Context(), do) }()
		return done
	}
	write := func(content string) func(dir string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, "trust.json"), []byte(content), 0o600) }
	}
	begun, goOn, wrote, entered := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	stale := edit(one, func(dir string) error {
		defer close(wrote)
		close(begun)
		<-goOn
		return write("stale")(dir)
	})
	<-begun
	_, err = two.db.Read().ExecContext(t.Context(),
		`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'`)
	check.Must(t, err)
	check.Must(t, <-edit(two, write("revoked")))
	next := edit(one, func(string) error {
		close(entered)
		<-wrote // as it would wait for the lock of the trust bundle
		return nil
	})
	select {
	case <-entered:
	case <-time.After(time.Second):
	}
	close(goOn)
	if err := <-stale; err == nil {
		t.Error("an edit without its transaction succeeds")
	}
	check.Must(t, <-next)
	raw, err := two.Read(t.Context(), "trust.json")
	check.Must(t, err)
	check.WantEqual(t, string(raw), "revoked")
}

// slow is a database in which a replica changes the state while it reads it.
type slow struct {
	*sql.DB
	change func() error
}

func (s slow) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := s.DB.QueryContext(ctx, query, args...)
	return rows, errors.Join(err, s.change())
}

// TestReadMeanwhile: a state that was read before this replica changed it is no older one that was put back.
func TestReadMeanwhile(t *testing.T) {
	t.Parallel()
	registry, _, err := keyring.GenerateRoot("registry", false)
	check.Must(t, err)
	opened, err := openShared(t.Context(), pgtest.Start(t).Database(t), t.TempDir(), registry)
	check.Must(t, err)
	t.Cleanup(func() { check.Must(t, opened.Close()) })
	s, serial := opened.(*shared), 0
	change := func() error {
		serial++
		return s.Edit(t.Context(), func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "serial"), []byte(strconv.Itoa(serial)), 0o600)
		})
	}
	check.Must(t, change())
	now, err := s.stored(t.Context(), slow{s.db.Read(), change}, "serial")
	check.Must(t, err)
	check.WantEqual(t, string(now.content), "1")
}

// TestAdopted: a registrar that gets a database keeps the state in its folder, and replicas get it. One with a state of
// its own loses nothing by a database that has another.
func TestAdopted(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t).Database(t)
	registry, _, err := keyring.GenerateRoot("registry", false)
	check.Must(t, err)
	names := []string{"trust.json", "trust-history.json", "trust-history-2.json", "serial", "ca.pem"}
	folder := func(state string) string {
		dir := t.TempDir()
		for _, name := range names {
			if state != "" {
				check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(state), 0o600))
			}
		}
		return dir
	}
	has := func(dir, state string) {
		t.Helper()
		for _, name := range names {
			if raw, err := os.ReadFile(filepath.Join(dir, name)); string(raw) != state {
				t.Errorf("%s is %q, %v", name, raw, err)
			}
		}
	}
	mine, none, other := folder("mine"), folder(""), folder("other")
	for _, dir := range []string{mine, none, mine, none, other} {
		s, err := openShared(t.Context(), dsn, dir, registry)
		check.Must(t, err)
		err = s.Edit(t.Context(), func(dir string) error { has(dir, "mine"); return nil })
		if dir == other {
			check.WantCode(t, err, "registrar_replaced", other)
		} else {
			check.Must(t, err)
		}
		check.Must(t, s.Close())
	}
	has(other, "other")
}

// TestReplaced: who writes the database gets no state believed but the newest one.
func TestReplaced(t *testing.T) {
	full.Only(t, "PostgreSQL")
	defer func(before int) { maxFiles = before }(maxFiles)
	maxFiles = 1000
	server, err := pgtest.Launch()
	check.Must(t, err)
	t.Cleanup(func() { check.Must(t, server.Close()) })
	dsn := server.Database(t)
	registry, _, err := keyring.GenerateRoot("registry", false)
	check.Must(t, err)
	open := func(dir string) *shared {
		s, err := openShared(t.Context(), dsn, dir, registry)
		check.Must(t, err)
		t.Cleanup(func() { _ = s.Close() }) // it may be closed
		return s.(*shared)
	}
	again := func(s *shared) *shared { // after another start
		_, err := openShared(t.Context(), dsn, s.dir, registry)
		check.WantEqual(t, errors.Is(err, files.ErrInUse), true)
		check.Must(t, s.Close())
		return open(s.dir)
	}
	s := open(t.TempDir())
	write := func(content string) error {
		return s.Edit(t.Context(), func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "serial"), []byte(content), 0o600),
				os.WriteFile(filepath.Join(dir, "ca.pem"), []byte(content), 0o600))
		})
	}
	do := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			_, err := s.db.Read().ExecContext(t.Context(), statement)
			check.Must(t, err)
		}
	}
	restore := []string{`DELETE FROM files`, `DELETE FROM seal`, `INSERT INTO files SELECT * FROM files_kept`,
		`INSERT INTO seal SELECT * FROM seal_kept`}
	keep := func() {
		do(`DROP TABLE IF EXISTS files_kept, seal_kept`, `CREATE TABLE files_kept AS SELECT * FROM files`,
			`CREATE TABLE seal_kept AS SELECT * FROM seal`)
	}
	check.Must(t, write("1"))
	keep()
	check.Must(t, write("2"))
	do(restore...)
	for range 2 {
		_, err = s.Read(t.Context(), "serial")
		check.WantCode(t, err, "registrar_replaced")
		check.WantCode(t, s.Edit(t.Context(), func(string) error { return nil }), "registrar_replaced")
		s = again(s)
	}
	// What the first replica changed is hidden from the second, which makes as many changes, or more.
	one, two := open(t.TempDir()), open(t.TempDir())
	s = one
	check.Must(t, write("2"))
	_, err = two.Read(t.Context(), "serial")
	check.Must(t, err)
	keep()
	check.Must(t, write("revoked"))
	do(restore...)
	s = two
	for _, content := range []string{"3", "4"} {
		check.Must(t, write(content))
		late, err := two.stored(t.Context(), two.db.Read(), "") // as the first one reads it if it began before its change
		check.Must(t, err)
		check.WantCode(t, one.saw(late), "registrar_replaced")
		_, err = one.Read(t.Context(), "serial")
		check.WantCode(t, err, "registrar_replaced")
		check.WantCode(t, one.Edit(t.Context(), func(string) error { return nil }), "registrar_replaced")
		one = again(one)
		check.WantCode(t, one.Edit(t.Context(), func(string) error { return nil }), "registrar_replaced")
	}
	s = open(t.TempDir()) // a replica that has seen nothing newer
	check.Must(t, write("3"))
	keep()
	hash := evidence.HashBytes([]byte("4"))
	for _, change := range []string{
		`UPDATE files SET content = '4' WHERE name = 'ca.pem'`,
		`ALTER TABLE files ALTER content DROP NOT NULL; UPDATE files SET content = NULL WHERE name = 'ca.pem'`,
		`UPDATE files SET content = '4', hash = '` + hash + `' WHERE name = 'ca.pem'`,
		`INSERT INTO files VALUES ('trust.json', '` + hash + `', '4')`,
		`DELETE FROM files WHERE name = 'serial'`,
		`UPDATE seal SET revision = revision + 1`,
		`DELETE FROM seal`,
		`DELETE FROM files; UPDATE seal SET mac = ''`,
		`INSERT INTO files SELECT 'x' || n, '', '' FROM generate_series(1, 1001) n`,
		`INSERT INTO files SELECT 'x' || n, repeat('x', 1000000), '' FROM generate_series(1, 3) n`,
		`UPDATE files SET content = convert_to(repeat('x', 11 << 20), 'UTF8')`,
		`UPDATE seal SET mac = mac || repeat(' x', 10000000)`,
	} {
		do(restore...)
		check.Must(t, s.Edit(t.Context(), func(string) error { return nil }))
		do(change)
		if strings.Contains(change, "1001") || strings.Contains(change, "11 << 20") {
			check.WantCode(t, CopyTrust(t.Context(), dsn, t.TempDir()), "registrar_replaced")
		}
		check.WantCode(t, open(t.TempDir()).Edit(t.Context(), func(string) error { return nil }), "registrar_replaced")
		_, err = s.Read(t.Context(), "ca.pem")
		check.WantCode(t, err, "registrar_replaced")
		auditor := httptest.NewRecorder()
		(&process{store: s}).file(auditor, httptest.NewRequest(http.MethodGet, "/v1/bundle", nil), "ca.pem")
		check.WantEqual(t, auditor.Code, http.StatusServiceUnavailable)
	}
}

// TestDiscreet: a registrar whose database has ended does not say that there is no file, nor the server and the user.
func TestDiscreet(t *testing.T) {
	full.Only(t, "PostgreSQL")
	server, err := pgtest.Launch()
	check.Must(t, err)
	registry, _, err := keyring.GenerateRoot("registry", false)
	check.Must(t, err)
	s, err := openShared(t.Context(), server.Database(t), t.TempDir(), registry)
	check.Must(t, err, server.Close())
	t.Cleanup(func() { check.Must(t, s.Close()) })
	_, err = s.Version(t.Context())
	check.WantEqual(t, errors.Is(err, fs.ErrNotExist), false)
	for range 2 {
		answer := httptest.NewRecorder()
		(&process{store: s}).history(answer, httptest.NewRequest(http.MethodGet, "/v1/history/1", nil))
		check.WantEqual(t, answer.Code, http.StatusServiceUnavailable)
		if body := answer.Body.String(); !strings.Contains(body, "reach the database") {
			t.Error(body)
		}
	}
}
