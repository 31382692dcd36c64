package ledgertest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

// Exporting is a store that can list the calls to export.
type Exporting interface {
	ledger.Store
	ledger.Exports
}

// RunExports tests the part of a ledger that lists calls to export. open is as for [Run], with a retention of an hour.
// It opens a store with this Options.Ended, which may be nil.
func RunExports(t *testing.T, openWith func(t *testing.T, place string, ended func()) Exporting) {
	ctx := context.Background()
	var ends atomic.Int64
	open := func(t *testing.T, place string) Exporting { return openWith(t, place, func() { ends.Add(1) }) }
	refused := func(id string, at time.Time) ledger.Record {
		r := post(id)
		r.State, r.Started = ledger.StateRefused, at
		return r
	}
	t.Run("a call is listed once, when it has ended", func(t *testing.T) {
		place := t.TempDir()
		s := open(t, place)
		outcome := post("post_1")
		check.Must(t, s.Begin(ctx, outcome), s.Begin(ctx, post("post_2")))
		wantUnexported(t, s)
		outcome.State, outcome.Artifacts = ledger.StateForwarded, nil
		check.Must(t, s.Write(ctx, []ledger.Record{outcome}, []ledger.Record{refused("post_3", Now())}))
		if ends.Load() == 0 {
			t.Error("the end of a call was not announced")
		}
		wantUnexported(t, s, "post_1", "post_3")
		all, err := s.Unexported(ctx, 1)
		if err != nil || len(all) != 1 {
			t.Fatalf("got %+v, %v", all, err)
		}
		var r ledger.Record
		check.Must(t, json.Unmarshal(all[0].AppendJSON(nil), &r))
		if r.State != ledger.StateForwarded || len(r.Artifacts) != 1 {
			t.Errorf("got %+v", r)
		}
		check.Must(t, s.Exported(ctx, all[0], ledger.Export{Seq: 99}), s.Exported(ctx), s.Close())
		s = open(t, place) // ends what was in flight
		check.Must(t, s.Exported(ctx, wantUnexported(t, s, "post_2", "post_3")...), s.Close())
		wantUnexported(t, open(t, place))
	})
	t.Run("a failed transaction lists nothing", func(t *testing.T) {
		s := open(t, t.TempDir())
		check.Must(t, s.Add(ctx, refused("post_1", Now())))
		wantUnavailable(t, s.Write(ctx, nil, []ledger.Record{refused("post_2", Now()), refused("post_1", Now())}))
		wantUnexported(t, s, "post_1")
	})
	t.Run("without an export nothing is listed, and pruning waits for nothing", func(t *testing.T) {
		place := t.TempDir()
		s := open(t, place)
		check.Must(t, s.Add(ctx, refused("post_1", Now())), s.Close())
		s = openWith(t, place, nil)
		check.Must(t, s.Add(ctx, refused("post_2", Now())))
		wantUnexported(t, s, "post_1")
		check.Must(t, s.Prune(ctx, Now().Add(90*time.Minute)))
		wantUnexported(t, s)
	})
	t.Run("pruning waits for the export, for a second retention", func(t *testing.T) {
		s := open(t, t.TempDir())
		check.Must(t, s.Add(ctx, refused("post_1", Now())), s.Add(ctx, refused("post_2", Now())),
			s.Add(ctx, refused("post_3", Now().Add(time.Minute))))
		check.Must(t, s.Exported(ctx, wantUnexported(t, s, "post_1", "post_2", "post_3")[1]))
		check.Must(t, s.Prune(ctx, Now().Add(90*time.Minute)))
		wantUnexported(t, s, "post_1", "post_3")
		if _, err := s.Get(ctx, "post_2"); err == nil {
			t.Error("an exported record was kept")
		}
		check.Must(t, s.Prune(ctx, Now().Add(2*time.Hour+30*time.Second)))
		wantUnexported(t, s, "post_3")
	})
	t.Run("large records come in parts", func(t *testing.T) {
		s := open(t, t.TempDir())
		for i := range 3 {
			r := refused(fmt.Sprint("post_", i), Now())
			r.Reason = string(make([]byte, ledger.MaxExport/10)) // six bytes each in JSON
			check.Must(t, s.Add(ctx, r))
		}
		for _, want := range []int{1, 1, 1, 0} {
			all, err := s.Unexported(ctx, 10)
			if err != nil || len(all) != want {
				t.Fatalf("%d records, %v, want %d", len(all), err, want)
			}
			check.Must(t, s.Exported(ctx, all...))
		}
	})
}

// ExportOf returns a record without artifacts as a ledger lists it for the export.
func ExportOf(t testing.TB, r ledger.Record) ledger.Export {
	t.Helper()
	record, err := json.Marshal(r)
	check.Must(t, err)
	return ledger.Export{ID: r.ID, Record: string(record)}
}

func wantUnexported(t *testing.T, s ledger.Exports, want ...string) []ledger.Export {
	t.Helper()
	all, err := s.Unexported(context.Background(), 100)
	var ids []string
	for _, r := range all {
		ids = append(ids, r.ID)
	}
	if err != nil || !slices.Equal(ids, want) {
		t.Fatalf("got %v, %v, want %v", ids, err, want)
	}
	return all
}
