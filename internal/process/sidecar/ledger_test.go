package sidecar

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

func TestLedgerRetention(t *testing.T) {
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		retention config.Duration
		age       time.Duration
		kept      bool
	}{
		"by default, young": {0, 89 * day, true}, "by default, old": {0, 91 * day, false},
		"for a day, young": {config.Duration(day), 23 * time.Hour, true},
		"for a day, old":   {config.Duration(day), 25 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, _, err := openLedger(t.Context(), &config.Sidecar{State: t.TempDir(), Retention: tt.retention}, nil,
				nil, zap.NewNop())
			check.Must(t, err)
			defer l.Close()
			now := time.Now()
			if err := l.Add(t.Context(),
				ledger.Record{ID: "post_1", Flow: "egress", State: ledger.StateRefused, Started: now.Add(-tt.age),
					Finished: now}); err != nil {
				t.Fatal(err)
			}
			check.Must(t, l.Prune(t.Context(), now))
			_, err = l.Get(t.Context(), "post_1")
			if kept := err == nil; kept != tt.kept || err != nil && !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("kept %t, %v", kept, err)
			}
		})
	}
}
