package registrar

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/db"
	"github.com/actionproof/mediator/internal/db/postgres"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/registrar"
	"github.com/actionproof/mediator/ledger"
)

// shared is the state of replicas in a PostgreSQL database. Each has a copy of the files in a folder, where the key
// registry edits them. Who writes the database can make no state of their own: an HMAC seals it, with a secret that
// follows from the registry's key. Nor can they bring back one that is older than this replica has seen, or undo a
// change by showing it to no other replica: each seal names those before.
type shared struct {
	db     *postgres.Pool
	folder *registrar.Folder // no other process may have it
	dir    string
	secret []byte
	now    func() time.Time
	// alone says that the folder has the state of a registrar without replicas. Only edit changes it.
	alone bool

	mu   sync.Mutex // guards seen
	seen seen       // the folder keeps it too
}

const tables = `CREATE TABLE files (name text PRIMARY KEY, hash text NOT NULL, content bytea NOT NULL);
CREATE TABLE seal (one boolean PRIMARY KEY DEFAULT true CHECK (one), revision bigint NOT NULL, mac text NOT NULL)`

var schema = db.Schema{Name: "actionproof_registrar", Version: 2, Tables: tables, Forgets: "which keys are certified"}

// Keys of the database's advisory locks: of an edit, and of the replica that leads.
const editLock, leadLock = 0x6d656469_01, 0x6d656469_02

func openShared(ctx context.Context, dsn, dir string, registry keyring.RootKey) (registrar.Store, error) {
	secret, err := registry.Secret(ctx, "the state of registrars")
	if err != nil {
		return nil, err
	}
	folder, err := registrar.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	s := &shared{folder: folder, dir: dir, secret: secret, now: time.Now}
	if s.db, err = postgres.OpenPool(ctx, dsn, schema); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	if err = s.recall(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// CopyTrust writes the trust bundle and its history into a folder, from the database that dsn names. They have the
// registry's signatures; only its secret can show that they are the latest.
func CopyTrust(ctx context.Context, dsn, dir string) (err error) {
	existing := schema
	existing.Existing = true
	pool, err := postgres.OpenPool(ctx, dsn, existing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	rows, err := pool.Read().QueryContext(ctx, `SELECT left(name, $1),
CASE WHEN octet_length(content) <= $2 THEN content END FROM files LIMIT $3`, maxName, maxContent, maxFiles+1)
	if err != nil {
		return ledger.Unavailable("read the registrar's state", err)
	}
	defer rows.Close()
	for n, size := 1, int64(0); rows.Next(); n++ {
		var name string
		var content []byte
		if err := rows.Scan(&name, &content); err != nil {
			return ledger.Unavailable("read the registrar's state", err)
		}
		if size += int64(len(content)); n > maxFiles || size > maxCopied || content == nil {
			return replaced("is larger than a registrar makes it")
		}
		if !ours.MatchString(name) {
			continue
		}
		if err := files.Replace(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *shared) Close() error { return errors.Join(s.db.Close(), s.folder.Close()) }

// Bounds on what is read of the database, which others may write: on a file's name and content in bytes, on the
// files, on all that is copied at once, and on the text of the seals. Each file of the history has 256 KiB.
const (
	maxName, maxSealed    = 64, 64 + (maxSeals+1)*(sealStart+1)
	maxContent, maxCopied = 10 << 20, int64(32 << 30)
)

var maxFiles = 100_000 // tests lower it

// ours are the names of the files that replicas share. Others in the folder are locks, or belong to one replica.
var ours = regexp.MustCompile(`^(trust(-history(-[0-9]+)?)?\.json|deployments\.json|serial|ca\.pem)$`)

// Edit implements [registrar.Store]. The files are stored in the transaction that has the lock. The folder has one of
// its own: if the transaction ends during a long do, the next edit must not find what this one still writes.
func (s *shared) Edit(ctx context.Context, do func(dir string) error) error {
	return s.folder.Edit(ctx, func(string) error { return s.edit(ctx, do) })
}

func (s *shared) edit(ctx context.Context, do func(dir string) error) error {
	var now state
	err := s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(editLock)); err != nil {
			return ledger.Unavailable("lock the registrar's state", err)
		}
		if err := s.checkClock(ctx, tx); err != nil {
			return err
		}
		before, err := s.stored(ctx, tx, "")
		if err != nil {
			return err
		}
		if before.revision > 0 { // else the folder may be that of a registrar without replicas, which is kept
			if err := s.pull(ctx, tx, before.files); err != nil {
				return err
			}
		}
		if err := do(s.dir); err != nil {
			return err
		}
		now, err = s.push(ctx, tx, before)
		return err
	})
	if err != nil {
		return err
	}
	s.alone = false
	return s.saw(now)
}

// maxSkew bounds the error of a replica's clock. One that is ahead would end certificates and revocations of others.
const maxSkew = 5 * time.Minute

func (s *shared) checkClock(ctx context.Context, tx *sql.Tx) error {
	var theirs int64
	err := tx.QueryRowContext(ctx, `SELECT extract(epoch FROM clock_timestamp())::bigint`).Scan(&theirs)
	if err != nil {
		return ledger.Unavailable("read the database's clock", err)
	}
	if off := s.now().Sub(time.Unix(theirs, 0)); off.Abs() > maxSkew {
		return refusal.New("clock_skew", "the registrar's clock differs from its database's by %s",
			off.Round(time.Second))
	}
	return nil
}

// changes is the channel on which replicas hear of each other's edits.
const changes = "actionproof_registrar"

func (s *shared) Watch(ctx context.Context, changed func(), failed func(error)) {
	s.db.Listen(ctx, changes, changed, failed)
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// pull makes the folder a copy of the stored files.
func (s *shared) pull(ctx context.Context, tx *sql.Tx, stored map[string]string) error {
	local, err := s.local()
	if err != nil {
		return err
	}
	for name, hash := range local {
		if s.alone && stored[name] != hash { // pulling would lose keys' history
			return replaced("is not the one in %s, and another registrar made it: empty the folder, or stop all, drop the "+
				"schema %s and start this one first", s.dir, schema.Name)
		}
		if stored[name] == "" { // of an edit that failed
			if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
				return err
			}
		}
	}
	for name, hash := range stored {
		if local[name] == hash {
			continue
		}
		now, err := s.stored(ctx, tx, name)
		if err == nil {
			err = files.Replace(filepath.Join(s.dir, name), now.content, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// local returns the hashes of the files in the folder.
func (s *shared) local() (map[string]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for _, e := range entries {
		if !ours.MatchString(e.Name()) {
			continue
		}
		raw, err := files.Read(filepath.Join(s.dir, e.Name()))
		if err != nil {
			return nil, err
		}
		all[e.Name()] = evidence.HashBytes(raw)
	}
	return all, nil
}

// push stores the changed files, and returns the state that the database has then.
func (s *shared) push(ctx context.Context, tx *sql.Tx, before state) (state, error) {
	now, err := s.local()
	if err != nil || maps.Equal(now, before.files) {
		return before, err
	}
	exec := func(query string, args ...any) error {
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return ledger.Unavailable("store the registrar's state", err)
		}
		return nil
	}
	for name, hash := range now {
		if before.files[name] == hash {
			continue
		}
		raw, err := files.Read(filepath.Join(s.dir, name))
		if err == nil {
			err = exec(`INSERT INTO files (name, hash, content) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET hash = excluded.hash, content = excluded.content`, name, hash, raw)
		}
		if err != nil {
			return state{}, err
		}
	}
	after := state{revision: before.revision + 1}
	if len(before.seals) > 0 {
		last := min(len(before.seals), maxSeals)
		after.seals = append([]string{before.seen().seal}, before.seals[1:last]...)
	}
	after.seals = append([]string{s.seal(now, after.revision, after.seals)}, after.seals...)
	return after, errors.Join(exec(`SELECT pg_notify($1, '')`, changes),
		exec(`INSERT INTO seal (revision, mac) VALUES ($1, $2)
ON CONFLICT (one) DO UPDATE SET revision = excluded.revision, mac = excluded.mac`, after.revision,
			strings.Join(after.seals, " ")))
}

func (s *shared) Read(ctx context.Context, name string) ([]byte, error) {
	now, err := s.stored(ctx, s.db.Read(), name)
	if err == nil {
		err = s.saw(now)
	}
	if err == nil && now.content == nil {
		err = fs.ErrNotExist
	}
	return now.content, postgres.Discreet(err)
}

func (s *shared) Version(ctx context.Context) (string, error) {
	now, err := s.stored(ctx, s.db.Read(), "")
	return strconv.FormatInt(now.revision, 10), postgres.Discreet(err)
}

// leadPeriod is how often a replica tries to lead, and how often the one that leads checks that it still does.
const leadPeriod = 2 * time.Second

// Lead implements [registrar.Store]. The lock belongs to a connection: if that breaks, another replica can take it.
func (s *shared) Lead(ctx context.Context, do func(context.Context) error) error {
	for ctx.Err() == nil {
		_ = s.leadOnce(ctx, do) // a broken connection: try again
		_ = every.Sleep(ctx, leadPeriod)
	}
	return nil
}

// takeLead takes the lock, unless a replica has it. PostgreSQL takes it back from a replica that is frozen: the
// connection ends if it is silent for longer than three pings take.
func takeLead(ctx context.Context, conn *sql.Conn) (got bool, err error) {
	err = conn.QueryRowContext(ctx, `SELECT CASE WHEN pg_try_advisory_lock($1)
THEN set_config('idle_session_timeout', $2, false) END IS NOT NULL`,
		int64(leadLock), strconv.FormatInt((3*leadPeriod).Milliseconds(), 10)).Scan(&got)
	return got, err
}

func (s *shared) leadOnce(ctx context.Context, do func(context.Context) error) error {
	conn, err := s.db.Read().Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if got, err := takeLead(ctx, conn); err != nil || !got {
		return err
	}
	defer func() {
		unlock, cancel := context.WithTimeout(context.WithoutCancel(ctx), leadPeriod)
		defer cancel()
		_, _ = conn.ExecContext(unlock, `SELECT pg_advisory_unlock($1), set_config('idle_session_timeout', '0', false)`,
			int64(leadLock))
	}()
	leading, stop := context.WithCancel(ctx)
	var pings sync.WaitGroup
	defer pings.Wait()
	pings.Go(func() {
		defer stop()
		for range every.Tick(leading, leadPeriod) {
			ping, cancel := context.WithTimeout(leading, 2*leadPeriod)
			err := conn.PingContext(ping)
			cancel()
			if err != nil {
				return
			}
		}
	})
	defer stop()
	return do(leading)
}
