package challenge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func capabilityClaims() evidence.Capability {
	b := binding
	b.Nonce = "nonce_1"
	hash := evidence.HashBytes([]byte("posting-policy-v1"))
	return evidence.Capability{
		Binding: b, ChallengeID: "challenge_1", DecisionID: "decision_1", GrantID: "grant_1",
		VerificationConsumed: true,
		Runtime: &evidence.RuntimeSummary{
			AttestationID: "attestation_1", EnvironmentHash: hash, IssuedAt: start.Unix(), Issuer: "mediator-runtime",
			KeyID: "runtime-key:v3", PolicyHash: hash,
			RuntimeID: "worker-1", Trigger: evidence.Trigger{ID: "event_1", Kind: evidence.TriggerSourceEvent,
				Source: "github"},
		},
		Session: &evidence.SessionSummary{InputKind: evidence.TriggerSourceEvent, ReceiptID: "receipt_1",
			SessionID: "session_1"},
	}
}

func registered() evidence.Registered {
	r := evidence.NewRegistered("gate", "gate", start, 15*time.Second)
	r.ID = "capability_1"
	return r
}

func wantCapability() challenge.WantCapability {
	hash := evidence.HashBytes([]byte("posting-policy-v1"))
	return challenge.WantCapability{
		Issuer: "gate", Binding: binding, MaxAge: 10 * time.Second, RequireEvidence: true, RequireGrant: true, Now: start,
		Skew: evidence.DefaultSkew,
		Runtime: &challenge.WantRuntime{
			Issuers: []string{"mediator-runtime"}, KeyIDs: []string{"runtime-key"}, RuntimeIDs: []string{"worker-1"},
			TriggerKinds: []string{evidence.TriggerSourceEvent}, TriggerSources: []string{"github"},
			PolicyHash: hash, EnvironmentHashes: []string{hash}, MaxAge: 15 * time.Second,
		},
	}
}

// TestVerifyCapability: what the golden vectors of posts and the gate's table of Authorize do not show.
func TestVerifyCapability(t *testing.T) {
	secret := newSecret(t, secretText)
	type args struct {
		claims evidence.Capability
		reg    evidence.Registered
		token  string // instead of a minted one
		secret evidence.Secret
		want   challenge.WantCapability
	}
	for _, tt := range []struct {
		name, code string
		change     func(*args)
	}{
		{"as it should be", "", func(*args) {}},
		{"with a nonce of the caller", "", func(a *args) { a.want.Binding.Nonce = "mine" }},
		{"unconsumed, and waived", "", func(a *args) { a.claims.VerificationConsumed, a.want.AllowUnconsumed = false, true }},
		{"nothing but the binding demanded", "", func(a *args) {
			a.claims = evidence.Capability{Binding: a.claims.Binding, ChallengeID: "c", VerificationConsumed: true}
			a.want.RequireEvidence, a.want.RequireGrant, a.want.Runtime = false, false, nil
		}},
		{"another secret", "signature_invalid", func(a *args) { a.secret = newSecret(t, []byte(strings.Repeat("x", 32))) }},
		{"no secret", "config_malformed", func(a *args) { a.secret = evidence.Secret{} }},
		{"for another gate", "not_allowed", func(a *args) { a.reg.Audience = "other" }},
		{"the issuer left open", "not_allowed", func(a *args) { a.want.Issuer = "" }},
		{"the age left open", "not_allowed", func(a *args) { a.want.MaxAge = 0 }},
		{"the time left open", "clock_skew", func(a *args) { a.want.Now = time.Time{} }},
		{"the binding left open", "artifact_malformed", func(a *args) { a.want.Binding = evidence.Binding{} }},
		{"expired", "expired", func(a *args) { a.want.Now, a.want.MaxAge = start.Add(17*time.Second), time.Hour }},
		{"no attestation to judge", "artifact_missing", func(a *args) {
			a.claims.Runtime, a.want.RequireEvidence = nil, false
		}},
		{"no attestation, and nothing asked of it", "artifact_missing", func(a *args) {
			a.claims.Runtime, a.want.Runtime = nil, nil
		}},
		{"the policy hash left open", "not_allowed", func(a *args) { a.want.Runtime.PolicyHash = "" }},
		{"the environment hash left open", "not_allowed", func(a *args) { a.want.Runtime.EnvironmentHashes = nil }},
		{"everything about the runtime left open", "not_allowed", func(a *args) {
			a.want.Runtime = &challenge.WantRuntime{}
		}},
		{"an attestation of the future", "expired", func(a *args) { a.claims.Runtime.IssuedAt += 3 }},
		{"the attestation's age left open", "expired", func(a *args) { a.want.Runtime.MaxAge = 0 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := args{claims: capabilityClaims(), reg: registered(), secret: secret, token: "minted",
				want: wantCapability()}
			tt.change(&a)
			if a.token == "minted" {
				var err error
				if a.token, _, err = challenge.Mint(secret, a.reg, a.claims); err != nil {
					t.Fatal(err)
				}
			}
			claims, key, err := challenge.VerifyCapability(a.secret, a.token, a.want)
			if wantCode(t, err, tt.code); tt.code != "" {
				if key != (ledger.Key{}) || claims.ID != "" {
					t.Errorf("there are claims or a key beside the refusal: %+v, %+v", claims, key)
				}
				return
			}
			check.WantEqual(t, key,
				ledger.Key{Kind: "capability", ID: "capability_1", Expires: time.Unix(start.Unix()+15, 0)})
			if claims.Binding.Nonce != "nonce_1" {
				t.Errorf("the nonce is %q, not the token's", claims.Binding.Nonce)
			}
		})
	}
}

func TestMintRefuses(t *testing.T) {
	secret := newSecret(t, secretText)
	for _, tt := range []struct {
		path  string
		value any
		code  string
	}{
		{"session.humanPromptPresent", true, "human_involved"},
		{"session.humanOperatorPresent", true, "human_involved"},
		{"session.userShellAccess", true, "human_involved"},
		{"session.agentEnvironmentUserAccessible", true, "human_involved"},
		{"binding.nonce", "", "artifact_malformed"},
		{"binding", evidence.Binding{}, "artifact_malformed"},
		{"challengeId", "", "artifact_malformed"},
		{"jti", "", "artifact_malformed"},
		{"exp", start.Unix(), "artifact_malformed"},
		{"exp", start.Unix() + 3600, "artifact_malformed"},
	} {
		t.Run(fmt.Sprint(tt.path, "=", tt.value), func(t *testing.T) {
			c := capabilityClaims()
			c.Registered = registered()
			gatetest.Set(t, &c, tt.path, tt.value)
			token, _, err := challenge.Mint(secret, c.Registered, c)
			wantCode(t, err, tt.code)
			if token != "" {
				t.Error("there is a token beside the refusal")
			}
		})
	}
}

func TestHumanSessionIsRefusedOnUseToo(t *testing.T) {
	secret, c := newSecret(t, secretText), capabilityClaims()
	c.Session.UserShellAccess = true
	evidence.CapabilityKind().Stamp(&c, registered(), evidence.KeyClaims{})
	token, err := evidence.SignMAC(secret, evidence.CapabilityKind(), c)
	check.Must(t, err)
	_, _, err = challenge.VerifyCapability(secret, token, wantCapability())
	wantCode(t, err, "human_involved")
}
