package registrar

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

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
	open := func() *shared {
		s, err := openShared(t.Context(), dsn, t.TempDir())
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

	check.Must(t, one.AddNonce(t.Context(), "nonce", time.Now().Add(time.Minute)),
		one.AddNonce(t.Context(), "old", time.Now().Add(-2*time.Second)))
	for _, nonce := range []string{"nonce", "nonce", "old"} {
		ok, err := two.Spend(t.Context(), nonce)
		if err != nil || ok != (nonce == "nonce" && before != "") {
			t.Errorf("the nonce %s is spent: %t, %v", nonce, ok, err)
		}
		before = ""
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
