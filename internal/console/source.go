package console

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/ledger"
)

// askTimeout bounds one question to a process. A page without an answer says so in its place.
const askTimeout = 5 * time.Second

// told is the answer of a process, or why there is none.
type told[A any] struct {
	Is  A
	Err string
}

func tell[A any](is A, err error) told[A] {
	if err != nil {
		return told[A]{is, err.Error() + daemon.CodeOf(err)}
	}
	return told[A]{Is: is}
}

func ask[A any](ctx context.Context, at, path string) told[A] { return tell(get[A](ctx, at, path)) }

// get is for pages that have nothing to show without the answer.
func get[A any](ctx context.Context, at, path string) (is A, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err = admin.Get(ctx, at, path, &is)
	return is, err
}

func together(questions ...func()) {
	var group errgroup.Group
	for _, q := range questions {
		group.Go(func() error { q(); return nil })
	}
	_ = group.Wait() // none fails
}

// records returns the selected records without their artifacts, at most limit.
func (s *Server) records(ctx context.Context, q ledger.Query, limit int) (all []ledger.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	q.Bare, q.Limit = true, limit
	for r, err := range admin.Records(ctx, s.Admin, q) {
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// versions returns what is known of each version of each key, and what could not be read.
func (s *Server) versions(ctx context.Context) (versions []keyring.Version, unread []string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	fail := func(err error) { unread = append(unread, err.Error()+daemon.CodeOf(err)) }
	for _, at := range s.Processes {
		roles, err := keyring.ReadRoles(ctx, at)
		if err != nil {
			fail(err)
			continue
		}
		versions = append(versions, keyring.VersionsOf(at, roles)...)
	}
	if s.Trust.Bundle != "" {
		books, err := keyring.ReadBooks(s.Trust.Registry, s.Trust.Bundle, s.Now())
		if err != nil {
			fail(err)
		} else {
			versions = books.Complete(versions)
		}
	}
	return versions, unread
}
