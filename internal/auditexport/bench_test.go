package auditexport_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/auditexport"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
)

func BenchmarkExport(b *testing.B) {
	for name, format := range auditexport.Formats {
		b.Run(name, func(b *testing.B) {
			ledgertest.BenchmarkExport(b, func(b *testing.B, ended func()) ledgertest.Exporting {
				l, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "ledger.db"),
					sqlite.Options{Now: ledgertest.Now, Ended: ended})
				check.Must(b, err)
				b.Cleanup(func() { l.Close() })
				return l
			}, func(from ledger.Exports) {
				e := auditexport.New(zap.NewNop(), prometheus.NewRegistry())
				e.Use(auditexport.NewFile(filepath.Join(b.TempDir(), "audit.jsonl"), format))
				ctx, cancel := context.WithCancel(b.Context())
				e.Run(ctx, drained{from, cancel})
			})
		})
	}
}
