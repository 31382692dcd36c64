package signer_test

import (
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
)

func BenchmarkSignPair(b *testing.B) {
	origin, receipt := newIssuer(b, evidence.TriggerOriginProofKind(), memory(b)),
		newIssuer(b, evidence.TriggerReceiptKind(), memory(b))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := signer.SignPair(b.Context(), origin, anOrigin, receipt, aReceipt); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAttest(b *testing.B) {
	a := signer.NewAttester(newIssuer(b, evidence.RuntimeAttestationKind(), memory(b)),
		newIssuer(b, evidence.SessionReceiptKind(), memory(b)), signer.Access{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Attest(b.Context(), run); err != nil {
			b.Fatal(err)
		}
	}
}
