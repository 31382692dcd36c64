package evidence_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
)

// TestWhatIsRememberedIsJudgedAgain: a token that was found authentic is refused like any other once the time, the trust or the policy
// says so; so is one that this process has signed itself, and one that was only said to be signed.
func TestWhatIsRememberedIsJudgedAgain(t *testing.T) {
	for name, signedHere := range map[string]bool{"opened": false, "signed here": true} {
		t.Run(name, func(t *testing.T) {
			d, now := newDesk(t), noon
			d.certificates = nil
			certificate := d.certify(t)
			memory := &evidence.Memory{}
			v, err := evidence.NewVerifier(d.trust(t, ""), evidence.VerifierOptions{Now: func() time.Time { return now }, Memory: memory})
			must(t, err)
			o := d.options("mediator", noon)
			if signedHere {
				o.Memory = memory
			}
			i, err := signer.New(evidence.RequestProofKind, d.key, o)
			must(t, err)
			h := evidence.HashBytes(nil)
			token, claims, err := i.Sign(context.Background(), evidence.RequestProof{AccessTokenHash: h, Action: "a", BindingHash: h, CapabilityID: "c", ContentHash: h, Resource: "r", Subject: "s"})
			must(t, err)
			want := evidence.Expected{Issuers: []string{"mediator"}, Audiences: []string{"api"}, KeyIDs: []string{"proof-key"}, MaxAge: time.Minute}
			open := func(want evidence.Expected) error {
				got, err := evidence.Open(v, evidence.RequestProofKind, token, want)
				if err == nil && got != claims {
					t.Errorf("got %+v, want %+v", got, claims)
				}
				return err
			}
			for range 3 {
				must(t, open(want))
			}
			_, err = evidence.Open(v, evidence.SessionReceiptKind, token, want)
			wantCode(t, err, "jws_type")
			_, err = evidence.Open(v, evidence.RequestProofKind, strings.Replace(token, ".", "..", 1), want)
			wantCode(t, err, "jws_malformed")

			for code, change := range map[string]func(*evidence.Expected){
				"issuer_not_allowed":          func(e *evidence.Expected) { e.Issuers = []string{"other"} },
				"audience_not_allowed":        func(e *evidence.Expected) { e.Audiences = []string{"other"} },
				"key_not_allowed":             func(e *evidence.Expected) { e.KeyIDs = []string{"other"} },
				"second_signature_not_pinned": func(e *evidence.Expected) { e.RequirePostQuantum = true },
				"key_custody":                 func(e *evidence.Expected) { e.Custody = []string{evidence.CustodyHardwareBacked} },
			} {
				other := want
				change(&other)
				wantCode(t, open(other), code)
			}
			now = noon.Add(10 * time.Minute)
			wantCode(t, open(want), "too_old")
			now = noon.Add(time.Hour)
			wantCode(t, open(want), "expired")
			now = noon

			for _, row := range []struct {
				code    string
				revoked evidence.Revocation
			}{
				{"key_revoked", evidence.Revocation{Kind: evidence.RevokedKey, ID: "proof-key:v1"}},
				{"artifact_revoked", evidence.Revocation{Kind: evidence.RevokedArtifact, ID: certificate}},
				{"artifact_revoked", evidence.Revocation{Kind: evidence.RevokedArtifact, ID: claims.ID}},
			} {
				v.SetTrust(d.trust(t, d.list(t, d.options("registry", noon), row.revoked)))
				wantCode(t, open(want), row.code)
			}

			other := newDesk(t) // another registry, another key, and the same ids
			v.SetTrust(other.trust(t, ""))
			wantCode(t, open(want), "signature_invalid")
			v.SetTrust(d.trust(t, ""))
			must(t, open(want))
		})
	}
}

// TestMemoryIsBounded: what has been pushed out, and what was asked for again already, is verified anew.
func TestMemoryIsBounded(t *testing.T) {
	w := newWorld(t)
	header, payload := parts(t, w.token)
	for i := range 5000 {
		must(t, w.open(w.forge(t, header, strings.Replace(payload, `"action":"a"`, fmt.Sprintf(`"action":"a%d"`, i), 1))))
	}
	must(t, w.open(w.token))
}

// BenchmarkOpen opens each artifact so many times: the second time it is remembered.
func BenchmarkOpen(b *testing.B) {
	w := newWorld(b)
	header, payload := parts(b, w.token)
	tokens := make([]string, 4097) // each is forgotten by its next turn
	for i := range tokens {
		tokens[i] = w.forge(b, header, strings.Replace(payload, `"action":"a"`, fmt.Sprintf(`"action":"a%d"`, i), 1))
	}
	for _, times := range []int{1, 2} {
		b.Run(strconv.Itoa(times), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				for range times {
					if err := w.open(tokens[i%len(tokens)]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
