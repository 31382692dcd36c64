package evidence_test

import (
	"github.com/actionproof/mediator/test/check"

	"testing"

	"github.com/actionproof/mediator/evidence"
)

func BenchmarkSign(b *testing.B) {
	w := newWorld(b)
	key, err := w.key.Current(b.Context())
	check.Must(b, err)
	claims, err := evidence.UnverifiedClaims(evidence.RequestProofKind(), w.token)
	check.Must(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := evidence.Sign(b.Context(), key, evidence.RequestProofKind(), claims); err != nil {
			b.Fatal(err)
		}
	}
}
