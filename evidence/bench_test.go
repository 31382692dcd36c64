package evidence_test

import (
	"github.com/actionproof/mediator/test/check"

	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// BenchmarkSign signs one artifact.
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

// BenchmarkClaims writes and reads the claims of a token that is authenticated with a secret, which costs next to
// nothing itself.
func BenchmarkClaims(b *testing.B) {
	secret, err := evidence.NewSecret([]byte(strings.Repeat("s", 32)))
	check.Must(b, err)
	hash := evidence.HashBytes(nil)
	claims := evidence.Capability{
		Registered: evidence.NewRegistered("gate", "gate", time.Now(), time.Minute),
		Binding: evidence.Binding{Action: "create_post", ContentHash: hash, Nonce: "n", Resource: "POST /posts",
			Subject: "agent:worker-1"},
		ChallengeID: "c", DecisionID: "d", GrantID: "g", VerificationConsumed: true,
		Runtime: &evidence.RuntimeSummary{
			AttestationID: "a", EnvironmentHash: hash, Issuer: "runtime", KeyID: "runtime-key:v1", PolicyHash: hash,
			RuntimeID: "r",
			Trigger:   evidence.Trigger{ID: "e", Kind: evidence.TriggerSourceEvent, Source: "github"},
		},
		Session: &evidence.SessionSummary{InputKind: evidence.TriggerSourceEvent, ReceiptID: "r", SessionID: "s"},
	}
	token, err := evidence.SignMAC(secret, evidence.CapabilityKind(), claims)
	check.Must(b, err)
	want := evidence.Expected{Issuers: []string{"gate"}, Audiences: []string{"gate"}, MaxAge: time.Minute}
	for name, do := range map[string]func() error{
		"write": func() error { _, err := evidence.SignMAC(secret, evidence.CapabilityKind(), claims); return err },
		"read": func() error {
			_, err := evidence.OpenMAC(secret, evidence.CapabilityKind(), token, want, time.Unix(claims.IssuedAt, 0), 0)
			return err
		},
		"hash": func() error { claims.Binding.Hash(); return nil },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				check.Must(b, do())
			}
		})
	}
}

// BenchmarkIsHash looks at different hashes, as those of a post are.
func BenchmarkIsHash(b *testing.B) {
	var hashes [64]string
	for i := range hashes {
		hashes[i] = evidence.HashBytes([]byte{byte(i)})
	}
	for i := 0; b.Loop(); i++ {
		if !evidence.IsHash(hashes[i%len(hashes)]) {
			b.Fatal("not a hash")
		}
	}
}

// BenchmarkKeyIDOf reads what key a token names.
func BenchmarkKeyIDOf(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		if evidence.KeyIDOf(w.token) == "" {
			b.Fatal("no key id")
		}
	}
}
