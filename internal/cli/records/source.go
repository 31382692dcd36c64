package records

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/proxy"
)

// SelectionFlags are the flags that select records.
type SelectionFlags struct {
	ledger.Query
	since, until, state string
}

func (f *SelectionFlags) Add(c *cobra.Command) {
	c.Flags().StringVar(&f.since, "since", "",
		"only what started at this time or later: as 2026-01-31T15:04:05Z, as the date 2026-01-31 (its midnight, "+
			"UTC), or as how long ago, 24h")
	c.Flags().StringVar(&f.until, "until", "", "only what started before this time")
	c.Flags().StringVar(&f.state, "state", "", "only this state: "+admin.JoinWords(ledger.States[:]))
	c.Flags().StringVar(&f.Session, "session", "", "only this session")
	c.Flags().StringVar(&f.Flow, "flow", "", "only this flow: "+admin.JoinWords(proxy.Flows[:]))
	c.Flags().StringVar(&f.Key, "key", "",
		"only those with an artifact that this key has signed: a kid, or a name for all its versions and those of "+
			"NAME/OWN")
}

// Parse reads the flags.
func (f *SelectionFlags) Parse(now time.Time) (s ledger.Query, err error) {
	s = f.Query
	s.State = ledger.State(f.state)
	for _, flag := range []struct {
		text string
		to   *time.Time
	}{{f.since, &s.Since}, {f.until, &s.Until}} {
		if flag.text != "" && err == nil {
			*flag.to, err = admin.ParseTime(flag.text, now)
		}
	}
	if err == nil {
		err = admin.CheckQuery(s)
	}
	if err != nil {
		return s, cli.Usage(err)
	}
	return s, nil
}

// Source is the source of records: the sidecar at the endpoint Admin or, if Ledger is set, the ledger that it names:
// the copy of a file, or a file with the DSN of a PostgreSQL database.
type Source struct{ Admin, Ledger string }

// Add adds --admin and --ledger, which exclude each other.
func (s *Source) Add(c *cobra.Command) {
	cli.AdminFlag(c, &s.Admin)
	c.Flags().StringVar(&s.Ledger, "ledger", "",
		"ask no sidecar: read this copy of a ledger's file, or the database whose DSN is in this file")
	cli.Check(c, func(c *cobra.Command) error {
		if s.Ledger != "" && c.Flags().Changed("admin") {
			return cli.Usagef("--ledger reads a ledger, and --admin asks a sidecar: give one of them")
		}
		return nil
	})
}

// Reader reads records from an open [Source].
type Reader struct {
	admin  string
	ledger opened // nil with a sidecar
}

type opened interface {
	admin.Source
	ledger.LogReader
	Get(ctx context.Context, id string) (ledger.Record, error)
	Chain(ctx context.Context, session string, from int64, limit int) ([]ledger.Receipt, error)
	Close() error
}

const maxDSN = 4 << 10 // bytes

// DSN returns the DSN of the database that Ledger names; it is empty without one.
func (s Source) DSN() (string, error) {
	if s.Ledger == "" {
		return "", nil
	}
	info, err := os.Stat(s.Ledger)
	if err != nil || info.Size() == 0 || info.Size() > maxDSN { // an SQLite file has more
		return "", err
	}
	raw, err := files.Read(s.Ledger)
	if err != nil || bytes.HasPrefix(raw, []byte("SQLite format")) {
		return "", err
	}
	return strings.TrimSpace(string(raw)), nil
}

// Open opens the source. The reader has to be closed.
func (s Source) Open(ctx context.Context) (*Reader, error) {
	if s.Ledger == "" {
		return &Reader{admin: s.Admin}, nil
	}
	dsn, err := s.DSN()
	if err != nil {
		return nil, err
	}
	r := &Reader{}
	if dsn != "" {
		r.ledger, err = postgres.OpenReader(ctx, dsn)
	} else {
		r.ledger, err = sqlite.OpenCopy(ctx, s.Ledger)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Close closes a ledger.
func (r *Reader) Close() error {
	if r.ledger == nil {
		return nil
	}
	return r.ledger.Close()
}

// Selected yields the selected records.
func (r *Reader) Selected(ctx context.Context, s ledger.Query) iter.Seq2[ledger.Record, error] {
	if r.ledger == nil {
		return admin.Records(ctx, r.admin, s)
	}
	return admin.Select(ctx, r.ledger, s)
}

// Receipts returns at most limit interaction receipts of a session, from a number on.
func (r *Reader) Receipts(ctx context.Context, session string, from int64, limit int) ([]string, error) {
	if r.ledger == nil {
		return admin.Receipts(ctx, r.admin, session, from, limit)
	}
	found, err := r.ledger.Chain(ctx, session, from, limit)
	tokens := make([]string, len(found))
	for i, receipt := range found {
		tokens[i] = receipt.Token
	}
	return tokens, err
}

// Proofs returns the source of the records' proofs, or nil if there is no transparency log.
func (r *Reader) Proofs(ctx context.Context) (archive.ProofSource, error) {
	if r.ledger == nil {
		var log *admin.TransparencyLog
		if err := admin.Get(ctx, r.admin, "/v1/log", &log); err != nil || log == nil {
			return nil, err
		}
		return admin.Proofs(r.admin), nil
	}
	head, _, err := r.ledger.TreeHead(ctx)
	if err != nil || head.Size == 0 {
		return nil, err
	}
	return archive.ProofsIn(r.ledger), nil
}

// Get returns the record whose id is or begins with id.
func (r *Reader) Get(ctx context.Context, id string) (ledger.Record, error) {
	if r.ledger == nil {
		var found admin.Record
		err := admin.Get(ctx, r.admin, "/v1/posts/"+url.PathEscape(id), &found)
		return found.Record, err
	}
	found, err := r.ledger.Get(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		err = refusal.New("not_found", "no record has an id that begins with %.80q", id)
	}
	return found, err
}
