package registrar

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// seen is the highest revision that a replica has seen, and the beginning of its seal; empty if that is not known.
type seen struct {
	revision int64
	seal     string
}

// recall reads what this replica has seen. Without that file, a folder with a state belongs to a registrar without
// replicas. An empty folder gets the file now, so that what a failed edit leaves is not taken for such a state.
func (s *shared) recall() error {
	path := filepath.Join(s.dir, revisionFile)
	raw, err := files.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		local, err := s.local()
		if s.alone = len(local) > 0; err != nil || s.alone {
			return err
		}
		return files.Replace(path, []byte("0"), 0o600)
	}
	number, seal, _ := strings.Cut(strings.TrimSpace(string(raw)), " ")
	s.seen.seal = seal
	if err == nil {
		s.seen.revision, err = strconv.ParseInt(number, 10, 64)
	}
	return err
}

// revisionFile keeps what a replica has seen.
const revisionFile = "revision"

// saw keeps that this replica has seen a state. It may have seen another since it began to read or to change this one.
func (s *shared) saw(state state) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := state.seen()
	if now.revision < s.seen.revision || now == s.seen {
		return nil
	}
	if err := state.follows(s.seen); err != nil {
		return err
	}
	s.seen = now
	return files.Replace(filepath.Join(s.dir, revisionFile), fmt.Appendf(nil, "%d %s", now.revision, now.seal), 0o600)
}

type state struct {
	files    map[string]string // hashes by name
	revision int64
	seals    []string // of the revision, then the beginnings of those of up to maxSeals revisions before, latest first
	content  []byte   // of one file
}

const maxSeals, sealStart = 1024, 32

func (s state) seen() seen {
	if len(s.seals) == 0 {
		return seen{}
	}
	return seen{s.revision, s.seals[0][:min(sealStart, len(s.seals[0]))]}
}

// follows refuses a state that does not follow from an earlier one.
func (s state) follows(was seen) error {
	if since := s.revision - was.revision; since < int64(len(s.seals)) && !strings.HasPrefix(s.seals[since], was.seal) {
		return replaced("does not follow from the revision %d that this replica has seen", was.revision)
	}
	return nil
}

// stored returns the state with the content of one file. It refuses what no replica has sealed, a revision that is
// older than one that this replica has seen, and one that does not follow from it: else a change that this replica
// made would be lost where the database hides it from another, which makes the next. One statement reads it all.
func (s *shared) stored(ctx context.Context, q querier, file string) (state, error) {
	s.mu.Lock()
	was := s.seen // a change of this replica may come while the state is read
	s.mu.Unlock()
	rows, err := q.QueryContext(ctx, `(SELECT left(name, $2), left(hash, $2 + 1),
CASE WHEN name = $1 AND octet_length(content) <= $3 THEN content END, NULL, NULL FROM files LIMIT $4)
UNION ALL (SELECT NULL, NULL, NULL, revision, left(mac, $5) FROM seal LIMIT 1)`, file, maxName, maxContent,
		maxFiles+1, maxSealed)
	if err != nil {
		return state{}, ledger.Unavailable("read the registrar's state", err)
	}
	defer rows.Close()
	now := state{files: make(map[string]string)}
	for rows.Next() {
		var name, hash, seals sql.NullString
		var at sql.NullInt64
		var raw []byte
		if err := rows.Scan(&name, &hash, &raw, &at, &seals); err != nil {
			return state{}, ledger.Unavailable("read the registrar's state", err)
		}
		if name.Valid {
			now.files[name.String] = hash.String
		} else {
			now.revision, now.seals = at.Int64, strings.Fields(seals.String)
		}
		if raw != nil {
			now.content = raw
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return state{}, ledger.Unavailable("read the registrar's state", err)
	}
	if len(now.files) > maxFiles {
		return state{}, replaced("has more than %d files", maxFiles)
	}
	sealed := len(now.seals) > 0
	switch {
	case now.revision < was.revision:
		return state{}, replaced("is at revision %d, but this replica has seen revision %d", now.revision,
			was.revision)
	case !sealed && (len(now.files) > 0 || now.revision > 0),
		sealed && !hmac.Equal([]byte(now.seals[0]), []byte(s.seal(now.files, now.revision, now.seals[1:]))):
		return state{}, replaced("was not written by a registrar with this registry's key")
	case now.files[file] != "" && evidence.HashBytes(now.content) != now.files[file]: // a NULL is no content
		return state{}, replaced("has a %s that does not match its hash", file)
	}
	if err := now.follows(was); err != nil {
		return state{}, err
	}
	return now, nil
}

func replaced(format string, args ...any) error {
	return refusal.New("registrar_replaced", "the registrar's state in the database "+format, args...)
}

// seal returns the HMAC of a state and of the seals before.
func (s *shared) seal(stored map[string]string, revision int64, before []string) string {
	mac := hmac.New(sha256.New, s.secret)
	fmt.Fprintf(mac, "%d\n", revision)
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		fmt.Fprintf(mac, "%q %q\n", name, stored[name])
	}
	for _, seal := range before {
		fmt.Fprintf(mac, "%q\n", seal)
	}
	return hex.EncodeToString(mac.Sum(nil))
}
