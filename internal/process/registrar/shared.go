package registrar

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/registrar"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
)

// folder is the state of a registrar without replicas, which always leads.
type folder struct{ *registrar.Folder }

func openFolder(dir string) (store, error) {
	f, err := registrar.OpenFolder(dir, time.Now)
	return folder{f}, err
}

// watchPeriod is how often a folder is looked at whose file system reports no changes.
const watchPeriod = time.Minute

// Watch implements [store].
func (f folder) Watch(ctx context.Context, changed func(), _ func(error)) {
	for range files.Watch(ctx, f.Path(registrar.BundleFile), watchPeriod) {
		changed()
	}
}

// Lead implements [store].
func (folder) Lead(ctx context.Context, do func(context.Context) error) error { return do(ctx) }

// shared is the state of replicas in a PostgreSQL database. Each has a copy of the files in a folder, where the key
// registry edits them.
type shared struct {
	db  *postgres.DB
	dir string
}

const tables = `CREATE TABLE files (name text PRIMARY KEY, hash text NOT NULL, content bytea NOT NULL);
CREATE TABLE nonces (nonce text PRIMARY KEY, until bigint NOT NULL)`

// Keys of the database's advisory locks: of an edit, and of the replica that leads.
const editLock, leadLock = 0x6d656469_01, 0x6d656469_02

func openShared(ctx context.Context, dsn, dir string) (store, error) {
	db, err := postgres.OpenDB(ctx, dsn, postgres.Schema{Name: "actionproof_registrar", Version: 1, Statements: tables,
		Forgets: "which keys are certified"})
	if err != nil {
		return nil, err
	}
	return &shared{db, dir}, nil
}

// Close implements [store].
func (s *shared) Close() error { return s.db.Close() }

// ours are the names of the files that replicas share. Others in the folder are locks, or belong to one replica.
var ours = regexp.MustCompile(`^(trust(-history(-[0-9]+)?)?\.json|deployments\.json|serial|ca\.pem)$`)

// Edit implements [registrar.Store]. The files are stored in the transaction that has the lock.
func (s *shared) Edit(ctx context.Context, do func(dir string) error) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(editLock)); err != nil {
			return ledger.Unavailable("lock the registrar's state", err)
		}
		before, err := s.pull(ctx, tx)
		if err != nil {
			return err
		}
		if err := do(s.dir); err != nil {
			return err
		}
		return s.push(ctx, tx, before)
	})
}

// changes is the channel on which replicas hear of each other's edits.
const changes = "actionproof_registrar"

// Watch implements [store].
func (s *shared) Watch(ctx context.Context, changed func(), failed func(error)) {
	s.db.Listen(ctx, changes, changed, failed)
}

// pull makes the folder a copy of the database, and returns the hashes of the files.
func (s *shared) pull(ctx context.Context, tx *sql.Tx) (map[string]string, error) {
	rows, err := tx.QueryContext(ctx, `SELECT name, hash FROM files`)
	if err != nil {
		return nil, ledger.Unavailable("read the registrar's state", err)
	}
	defer rows.Close()
	stored := make(map[string]string)
	for rows.Next() {
		var name, hash string
		if err := rows.Scan(&name, &hash); err != nil {
			return nil, ledger.Unavailable("read the registrar's state", err)
		}
		if ours.MatchString(name) {
			stored[name] = hash
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, ledger.Unavailable("read the registrar's state", err)
	}
	local, err := s.local()
	if err != nil {
		return nil, err
	}
	for name := range local { // of an edit that failed
		if stored[name] == "" {
			if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
				return nil, err
			}
		}
	}
	for name, hash := range stored {
		if local[name] == hash {
			continue
		}
		var content []byte
		if err := tx.QueryRowContext(ctx, `SELECT content FROM files WHERE name = $1`, name).Scan(&content); err != nil {
			return nil, ledger.Unavailable("read the registrar's state", err)
		}
		if err := files.Replace(filepath.Join(s.dir, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	return stored, nil
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

func (s *shared) push(ctx context.Context, tx *sql.Tx, before map[string]string) error {
	now, err := s.local()
	if err != nil {
		return err
	}
	for name, hash := range now {
		if before[name] == hash {
			continue
		}
		if _, err := tx.ExecContext(ctx, `SELECT pg_notify($1, '')`, changes); err != nil { // once for a transaction
			return ledger.Unavailable("store the registrar's state", err)
		}
		raw, err := files.Read(filepath.Join(s.dir, name))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO files (name, hash, content) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET hash = excluded.hash, content = excluded.content`, name, hash, raw)
		if err != nil {
			return ledger.Unavailable("store the registrar's state", err)
		}
	}
	return nil
}

// Read implements [registrar.Store].
func (s *shared) Read(ctx context.Context, name string) (content []byte, err error) {
	err = s.db.Read().QueryRowContext(ctx, `SELECT content FROM files WHERE name = $1`, name).Scan(&content)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, ledger.Unavailable("read the registrar's state", err)
	}
	return content, nil
}

// Version implements [registrar.Store].
func (s *shared) Version(ctx context.Context) (string, error) {
	rows, err := s.db.Read().QueryContext(ctx, `SELECT hash FROM files ORDER BY name`)
	if err != nil {
		return "", ledger.Unavailable("read the registrar's state", err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var hash string
		if err := rows.Scan(&hash); err != nil {
			return "", ledger.Unavailable("read the registrar's state", err)
		}
		all = append(all, hash)
	}
	return strings.Join(all, " "), rows.Err()
}

// AddNonce implements [registrar.Store].
func (s *shared) AddNonce(ctx context.Context, nonce string, until time.Time) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM nonces WHERE until < $1`, time.Now().Unix())
		if err != nil {
			return ledger.Unavailable("store a nonce", err)
		}
		done, err := tx.ExecContext(ctx, `INSERT INTO nonces SELECT $1, $2 WHERE (SELECT count(*) FROM nonces) < $3`, nonce,
			until.Unix(), registrar.MaxNonces)
		if err != nil {
			return ledger.Unavailable("store a nonce", err)
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return refusal.New("overloaded", "%d nonces wait to be used", registrar.MaxNonces)
		}
		return nil
	})
}

// Spend implements [registrar.Store].
func (s *shared) Spend(ctx context.Context, nonce string) (ok bool, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, `DELETE FROM nonces WHERE nonce = $1 AND until >= $2`, nonce, time.Now().Unix())
		if err != nil {
			return ledger.Unavailable("spend a nonce", err)
		}
		n, err := done.RowsAffected()
		ok = n == 1
		return err
	})
	return ok, err
}

// leadPeriod is how often a replica tries to lead, and how often the one that leads checks that it still does.
const leadPeriod = 2 * time.Second

// Lead implements [store]. The lock belongs to a connection: if that breaks, another replica can take it.
func (s *shared) Lead(ctx context.Context, do func(context.Context) error) error {
	for ctx.Err() == nil {
		_ = s.leadOnce(ctx, do) // a broken connection: try again
		select {
		case <-ctx.Done():
		case <-time.After(leadPeriod):
		}
	}
	return nil
}

func (s *shared) leadOnce(ctx context.Context, do func(context.Context) error) error {
	conn, err := s.db.Read().Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var got bool
	if err := conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, int64(leadLock)).Scan(&got); err != nil ||
		!got {
		return err
	}
	defer func() {
		unlock, cancel := context.WithTimeout(context.WithoutCancel(ctx), leadPeriod)
		defer cancel()
		_, _ = conn.ExecContext(unlock, `SELECT pg_advisory_unlock($1)`, int64(leadLock))
	}()
	leading, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- do(leading) }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(leadPeriod):
		}
		ping, cancel := context.WithTimeout(ctx, 2*leadPeriod)
		err := conn.PingContext(ping)
		cancel()
		if err != nil {
			stop()
			<-done
			return err
		}
	}
}
