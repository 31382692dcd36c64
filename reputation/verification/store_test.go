package verification_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func each(t *testing.T, test func(t *testing.T, s *verification.Store)) {
	t.Run("SQLite", func(t *testing.T) { test(t, openStore(t, filepath.Join(t.TempDir(), "verification.db"), "")) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, openStore(t, "", pgtest.Database(t))) })
}

func openStore(t *testing.T, path, dsn string) *verification.Store {
	t.Helper()
	s, err := verification.Open(t.Context(), path, dsn, func() time.Time { return noon })
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func session(id, subject string, opened time.Time) verification.Session {
	return verification.Session{
		ID: id, Nonce: "nonce", Key: "key", Caller: verification.Caller{Subject: subject, Session: "ses", ModelCalls: 7},
		State: verification.Pending, Opened: opened.UnixMilli(),
		Task:     verification.Task{ID: "task", RequiredTools: []string{"search_plugins"}},
		Calls:    []verification.Call{{Step: 1, Tool: "search_plugins", Canary: "c"}},
		Turns:    []verification.Taken{{Step: 2, Hash: "h"}},
		FollowUp: &verification.FollowUp{Step: 3, Prompt: "p"}, Answered: verification.Answered{Step: 4, Observed: true},
		Step: 4, Early: true,
	}
}

var must = check.Must

func TestStoreSessions(t *testing.T) {
	each(t, func(t *testing.T, s *verification.Store) {
		ctx := t.Context()
		want := session("a", "subject", noon)
		must(t, s.Begin(ctx, want, 9, 9))
		got, err := s.Session(ctx, "a")
		must(t, err)
		if !got.Answered.Observed || got.FollowUp.Prompt != "p" || got.Calls[0].Canary != "c" || got.Turns[0].Hash != "h" ||
			got.Caller != want.Caller || !got.Early || got.Version != 0 {
			t.Errorf("got %+v", got)
		}
		got.State = verification.InProgress
		must(t, s.Update(ctx, got, verification.Effects{}))
		if err := s.Update(ctx, got, verification.Effects{Fail: []string{"x"}}); !errors.Is(err, verification.ErrConflict) {
			t.Errorf("an update of an older version: %v", err)
		}
		if left, err := s.Failures(ctx, "x"); err != nil || len(left) > 0 {
			t.Errorf("a conflict has effects: %v, %v", left, err)
		}
		got, err = s.Session(ctx, "a")
		must(t, err)
		if got.State != verification.InProgress || got.Version != 1 {
			t.Errorf("got %s, version %d", got.State, got.Version)
		}
		if _, err := s.Session(ctx, "b"); !errors.Is(err, verification.ErrNotFound) {
			t.Error(err)
		}
		if err := s.Update(ctx, session("b", "", noon), verification.Effects{}); !errors.Is(err, verification.ErrConflict) {
			t.Error(err)
		}
		must(t, s.Begin(ctx, session("c", "subject", noon.Add(time.Second)), 9, 9))
		by := want.Caller
		by.ModelCalls++ // there were more calls since
		newest, err := s.Newest(ctx, by)
		if err != nil || newest.ID != "c" {
			t.Errorf("newest %s, %v", newest.ID, err)
		}
		if _, err := s.Newest(ctx, verification.Caller{Subject: "subject", Session: "other"}); !errors.Is(err,
			verification.ErrNotFound) {
			t.Error(err)
		}
	})
}

func TestStoreOpenSessionsAreBounded(t *testing.T) {
	each(t, func(t *testing.T, s *verification.Store) {
		ctx := t.Context()
		refused := func(id, subject string, opened time.Time) bool {
			return s.Begin(ctx, session(id, subject, opened), 2, 3) != nil
		}
		old := session("old", "a", noon.Add(-10*time.Minute))
		must(t, s.Begin(ctx, old, 2, 3))
		must(t, s.Begin(ctx, session("a1", "a", noon), 2, 3))
		must(t, s.Begin(ctx, session("a2", "a", noon), 2, 3))
		if !refused("a3", "a", noon) {
			t.Error("a third of one subject")
		}
		must(t, s.Begin(ctx, session("b1", "b", noon), 2, 3))
		if !refused("c1", "c", noon) {
			t.Error("a fourth in all")
		}
		done, err := s.Session(ctx, "a1")
		must(t, err)
		done.State = verification.Failed
		must(t, s.Update(ctx, done, verification.Effects{}))
		must(t, s.Begin(ctx, session("a3", "a", noon), 2, 3))
	})
}

// TestStoreRegistered: a registration ends after 30 days, unless it is renewed before.
func TestStoreRegistered(t *testing.T) {
	each(t, func(t *testing.T, s *verification.Store) {
		ctx := t.Context()
		now, err := s.Now(ctx)
		must(t, err)
		now = now.Truncate(time.Second)
		must(t, s.Begin(ctx, session("a", "subject", now), 9, 9))
		ago := func(days int) time.Time { return now.Add(-time.Duration(days) * 24 * time.Hour) }
		for i, days := range []int{65, 40, 35, 30, 20, 10} {
			one := session("a", "subject", now)
			one.Version = int64(i)
			plugin := verification.Plugin{DID: fmt.Sprint("did:", i), Key: "key"}
			agents := map[int][]string{65: {"again", "gone"}, 40: {"renewed"}, 35: {"gone too"}, 30: {"just gone"},
				20: {"renewed"}, 10: {"renewed", "again", "new"}}[days]
			must(t, s.Update(ctx, one, verification.Effects{Plugin: &plugin, Agents: agents, At: ago(days)}))
		}
		for id, want := range map[string]time.Time{"renewed": ago(40), "again": ago(10), "new": ago(10), "gone": {},
			"gone too": {}, "just gone": {}, "other": {}} {
			if since, ok, err := s.Registered(ctx, id); err != nil || ok == want.IsZero() || ok && !since.Equal(want) {
				t.Errorf("%s is registered since %v, %v, %v", id, since, ok, err)
			}
		}
	})
}

func TestStoreEffects(t *testing.T) {
	each(t, func(t *testing.T, s *verification.Store) {
		ctx := t.Context()
		must(t, s.Begin(ctx, session("a", "subject", noon), 9, 9))
		version := int64(0)
		update := func(e verification.Effects) error {
			one := session("a", "subject", noon)
			one.Version = version
			err := s.Update(ctx, one, e)
			if err == nil {
				version++
			}
			return err
		}
		must(t, update(verification.Effects{Fail: []string{"s", "k"}, At: noon}))
		must(t, update(verification.Effects{Fail: []string{"s"}, At: noon.Add(time.Second)}))
		left, err := s.Failures(ctx, "s", "none", "k")
		if err != nil || len(left) != 2 || left[0].Count != 1 ||
			left[1].Count != 2 || !left[1].Last.Equal(noon.Add(time.Second)) {
			t.Errorf("failures %v, %v", left, err)
		}
		plugin := verification.Plugin{DID: "did:1", Key: "key",
			Metadata: verification.Metadata{Name: "Übung", Description: "50% _done"}, Registered: noon}
		must(t, update(verification.Effects{Plugin: &plugin, Reset: []string{"s"}}))
		if left, err := s.Failures(ctx, "s", "k"); err != nil || len(left) != 1 {
			t.Errorf("after a reset %v, %v", left, err)
		}
		plugin.Metadata.Version = "2"
		must(t, update(verification.Effects{Plugin: &plugin}))
		other := plugin
		other.Key = "another"
		if err := update(verification.Effects{Plugin: &other, Fail: []string{"z"}}); err == nil ||
			!strings.Contains(err.Error(), "did:1 is registered for another key") {
			t.Errorf("another key took the DID: %v", err)
		}
		if left, err := s.Failures(ctx, "z"); err != nil || len(left) > 0 {
			t.Errorf("a refusal has effects: %v, %v", left, err)
		}
		got, err := s.Plugin(ctx, "did:1")
		if err != nil || got.Metadata.Version != "2" || got.Key != "key" || !got.Registered.Equal(noon) {
			t.Errorf("plugin %+v, %v", got, err)
		}
		if _, err := s.Plugin(ctx, "did:2"); !errors.Is(err, verification.ErrNotFound) {
			t.Error(err)
		}
		must(t, update(
			verification.Effects{
				Plugin: &verification.Plugin{DID: "did:2", Key: "k", Metadata: verification.Metadata{Name: "Apfel"}}}))
		for query, want := range map[string]int{"": 2, "übung": 1, "50%": 1, "%": 1, "_": 1, "DID:": 2, "nothing": 0} {
			found, err := s.Search(ctx, query, 5)
			if err != nil || len(found) != want {
				t.Errorf("%q: %d, want %d, %v", query, len(found), want, err)
			}
		}
		if found, err := s.Search(ctx, "", 1); err != nil || len(found) != 1 || found[0].DID != "did:2" {
			t.Errorf("the first by name: %v, %v", found, err)
		}
	})
}

func TestStorePassed(t *testing.T) {
	each(t, func(t *testing.T, s *verification.Store) {
		ctx := t.Context()
		must(t, s.Begin(ctx, session("one", "a", noon), 9, 9))
		for i, result := range []string{"first", "second"} {
			read, err := s.Session(ctx, "one")
			must(t, err)
			p := verification.Passed{Subject: "a", At: noon.Add(time.Duration(i) * time.Minute), Result: result}
			must(t, s.Update(ctx, read, verification.Effects{Passed: &p}))
			if got, err := s.Passed(ctx, "a"); err != nil || got.Result != result || !got.At.Equal(p.At) || got.Subject != "a" {
				t.Errorf("%+v, %v", got, err)
			}
			if err := s.Update(ctx, read,
				verification.Effects{Passed: &verification.Passed{Subject: "a", At: noon, Result: "late"}}); !errors.Is(err,
				verification.ErrConflict) {
				t.Errorf("an update of an old version: %v", err)
			}
		}
		must(t, s.Begin(ctx, session("frozen", "a", noon), 9, 9))
		must(t, s.Update(ctx, session("frozen", "a", noon),
			verification.Effects{Passed: &verification.Passed{Subject: "a", At: noon.Add(-time.Hour), Result: "older"}}))
		if got, err := s.Passed(ctx, "a"); err != nil || got.Result != "second" {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := s.Passed(ctx, "b"); !errors.Is(err, verification.ErrNotFound) {
			t.Errorf("another caller has %+v, %v", got, err)
		}
	})
}

func TestStorePrune(t *testing.T) {
	each(t, func(t *testing.T, s *verification.Store) {
		ctx := t.Context()
		must(t, s.Begin(ctx, session("old", "a", noon.Add(-time.Hour)), 9, 9))
		must(t, s.Begin(ctx, session("new", "a", noon), 9, 9))
		old, err := s.Session(ctx, "old")
		must(t, err)
		must(t, s.Update(ctx, old,
			verification.Effects{Fail: []string{"f"}, At: noon.Add(-time.Hour),
				Passed: &verification.Passed{Subject: "a", At: noon.Add(-time.Hour), Result: "r"}}))
		must(t, s.Prune(ctx, noon.Add(-time.Minute), noon.Add(-2*time.Hour), noon.Add(-2*time.Hour)))
		if p, err := s.Passed(ctx, "a"); err != nil || p.Result != "r" {
			t.Errorf("what was passed went with the sessions: %v, %v", p, err)
		}
		if left, err := s.Failures(ctx, "f"); err != nil || len(left) != 1 {
			t.Errorf("failures went with the sessions: %v, %v", left, err)
		}
		must(t, s.Prune(ctx, noon.Add(-time.Minute), noon.Add(-time.Minute), noon.Add(-time.Minute)))
		if p, err := s.Passed(ctx, "a"); !errors.Is(err, verification.ErrNotFound) {
			t.Errorf("what was passed is left: %v, %v", p, err)
		}
		_, errOld := s.Session(ctx, "old")
		_, errNew := s.Session(ctx, "new")
		left, err := s.Failures(ctx, "f")
		if !errors.Is(errOld, verification.ErrNotFound) || errNew != nil || err != nil || len(left) > 0 {
			t.Errorf("%v, %v, %v, %v", errOld, errNew, left, err)
		}
	})
}

func TestStoreOneUpdateWins(t *testing.T) {
	each(t, func(t *testing.T, s *verification.Store) {
		ctx := t.Context()
		must(t, s.Begin(ctx, session("a", "subject", noon), 9, 9))
		check.WantEqual(t, check.Together(t, 16, func(int) error {
			one, err := s.Session(ctx, "a")
			one.Version = 0
			return errors.Join(err, s.Update(ctx, one, verification.Effects{Fail: []string{"f"}, At: noon}))
		}, verification.ErrConflict), 1)
		left, err := s.Failures(ctx, "f")
		if err != nil || len(left) != 1 || left[0].Count != 1 {
			t.Errorf("failures %v, %v", left, err)
		}
	})
}

func TestStoreSQLiteIsDurable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verification.db")
	s := openStore(t, path, "")
	must(t, s.Begin(t.Context(), session("a", "subject", noon), 9, 9))
	one, err := s.Session(t.Context(), "a")
	must(t, err)
	must(t, s.Update(t.Context(), one,
		verification.Effects{Fail: []string{"f"}, At: noon, Plugin: &verification.Plugin{DID: "did:1"}}))
	must(t, s.Close())
	s = openStore(t, path, "")
	one, err = s.Session(t.Context(), "a")
	left, errFailures := s.Failures(t.Context(), "f")
	_, errPlugin := s.Plugin(t.Context(), "did:1")
	if err != nil || one.Version != 1 || errFailures != nil || len(left) != 1 || errPlugin != nil {
		t.Errorf("%+v, %v, %v, %v, %v", one, err, left, errFailures, errPlugin)
	}
}

func TestStoreReplicasShareADatabase(t *testing.T) {
	dsn := pgtest.Database(t)
	replicas := []*verification.Store{openStore(t, "", dsn), openStore(t, "", dsn)}
	before, err := replicas[0].Now(t.Context())
	must(t, err)
	after, err := replicas[1].Now(t.Context())
	if err != nil || after.Before(before) {
		t.Errorf("the clocks %v and %v, %v", before, after, err)
	}
	full := errors.New("full")
	check.WantEqual(t, check.Together(t, 24, func(i int) error {
		if replicas[i%2].Begin(t.Context(), session(fmt.Sprint(i), "subject", noon), 5, 99) != nil {
			return full
		}
		return nil
	}, full), 5)
	must(t, replicas[0].Begin(t.Context(), session("shared", "another", noon), 5, 99))
	check.WantEqual(t, check.Together(t, 16, func(i int) error {
		return replicas[i%2].Update(t.Context(), session("shared", "another", noon),
			verification.Effects{Fail: []string{"s", "k"}, At: noon})
	}, verification.ErrConflict), 1)
	left, err := replicas[1].Failures(t.Context(), "s", "k")
	if err != nil || len(left) != 2 || left[0].Count != 1 {
		t.Errorf("%v, %v", left, err)
	}
}
