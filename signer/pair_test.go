package signer_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

// meeting is a key that signs once another one is asked to sign too.
type meeting struct {
	*custody.Memory
	both *sync.WaitGroup
}

func (m meeting) Current(ctx context.Context) (custody.Version, error) {
	v, err := m.Memory.Current(ctx)
	return custody.NewVersion(m.Name(), 1, v.Public(), func(ctx context.Context, message []byte) ([]byte, error) {
		m.both.Done()
		m.both.Wait()
		return v.Sign(ctx, message)
	}), err
}

var (
	anOrigin = evidence.TriggerOriginProof{
		Kind: evidence.TriggerSourceEvent, Source: "github", VerificationMethod: evidence.MethodWebhookSignature,
		EventID: "e", EvidenceID: "d",
		PayloadHash: evidence.HashBytes(nil), BindingHash: evidence.HashBytes(nil), EvidenceHash: evidence.HashBytes(nil),
	}
	aReceipt = func(o evidence.TriggerOriginProof, hash string) evidence.TriggerReceipt {
		return evidence.TriggerReceipt{Kind: o.Kind, Source: o.Source, EventID: o.EventID + o.ID, PayloadHash: o.PayloadHash,
			BindingHash: o.BindingHash, OriginProofHash: hash}
	}
)

func TestSignPair(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	tokens, err := signer.SignPair(t.Context(), newIssuer(t, evidence.TriggerOriginProofKind(), meeting{memory(t), &both}),
		anOrigin,
		newIssuer(t, evidence.TriggerReceiptKind(), meeting{memory(t), &both}), aReceipt)
	check.Must(t, err)
	origin, err := evidence.UnverifiedClaims(evidence.TriggerOriginProofKind(), tokens[0])
	check.Must(t, err)
	receipt, err := evidence.UnverifiedClaims(evidence.TriggerReceiptKind(), tokens[1])
	if err != nil || receipt.OriginProofHash != evidence.HashToken(tokens[0]) || receipt.EventID != "e"+origin.ID ||
		origin.ID == "" {
		t.Errorf("%+v, %v", receipt, err)
	}
	// The hash covers what is signed, not the signature.
	words := tokens[0][:strings.LastIndexByte(tokens[0], '.')]
	if evidence.HashToken(words+".AAAA") != receipt.OriginProofHash ||
		evidence.HashBytes([]byte(words)) != receipt.OriginProofHash ||
		evidence.HashToken("x"+tokens[0]) == receipt.OriginProofHash {
		t.Error("the hash of a token is not that of its header and payload")
	}
}

func TestSignPairRefuses(t *testing.T) {
	good := newIssuer(t, evidence.TriggerReceiptKind(), memory(t))
	if _, err := signer.SignPair(t.Context(), newIssuer(t, evidence.TriggerOriginProofKind(), memory(t)),
		evidence.TriggerOriginProof{}, good, aReceipt); err == nil {
		t.Error("malformed claims are signed")
	}
	secret, err := evidence.NewSecret([]byte(strings.Repeat("s", 32)))
	check.Must(t, err)
	o := signer.Options{Issuer: "iss", Audience: "aud", Lifetime: time.Minute, Now: now}
	shared, err := signer.NewShared(evidence.TriggerOriginProofKind(), secret, o)
	check.Must(t, err)
	sharedReceipt, err := signer.NewShared(evidence.TriggerReceiptKind(), secret, o)
	check.Must(t, err)
	o.Second = secondKey{}
	twice, err := signer.New(evidence.TriggerOriginProofKind(), memory(t), o)
	check.Must(t, err)
	twiceReceipt, err := signer.New(evidence.TriggerReceiptKind(), memory(t), o)
	check.Must(t, err)
	origin := newIssuer(t, evidence.TriggerOriginProofKind(), memory(t))
	for _, tt := range []struct {
		name    string
		origin  *signer.Issuer[evidence.TriggerOriginProof]
		receipt *signer.Issuer[evidence.TriggerReceipt]
	}{
		{"the first with a secret", shared, good}, {"the second with a secret", origin, sharedReceipt},
		{"the first signed twice", twice, good}, {"the second signed twice", origin, twiceReceipt},
	} {
		if _, err := signer.SignPair(t.Context(), tt.origin, anOrigin, tt.receipt, aReceipt); err == nil ||
			!strings.Contains(err.Error(), "cannot be signed as a pair") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
