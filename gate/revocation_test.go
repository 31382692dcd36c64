package gate_test

import (
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func revoke(t *testing.T, k *gatetest.Kit, kind, id string) {
	t.Helper()
	k.Revoke(t, evidence.Revocation{Kind: kind, ID: id})
	k.Verifier.SetTrust(k.Trust(t))
	k.Revocations = ""
}

func idOf[C any](t *testing.T, kind evidence.Kind[C], token string) string {
	t.Helper()
	c, err := evidence.UnverifiedClaims(kind, token)
	check.Must(t, err)
	return kind.Registered(c).ID
}

func revokedRows() []row {
	var rows []row
	artifact := func(name string, id func(*testing.T, evidence.Envelope) string) {
		rows = append(rows, altered(name+" revoked", "revoked", func(t *testing.T, k *gatetest.Kit, r *gate.AdmitRequest) {
			revoke(t, k, evidence.RevokedArtifact, id(t, r.Envelope))
		}))
	}
	artifact("origin proof", func(t *testing.T, e evidence.Envelope) string {
		return idOf(t, evidence.TriggerOriginProofKind(), e.OriginProof)
	})
	artifact("trigger receipt", func(t *testing.T, e evidence.Envelope) string {
		return idOf(t, evidence.TriggerReceiptKind(), e.TriggerReceipt)
	})
	artifact("policy decision", func(t *testing.T, e evidence.Envelope) string {
		return idOf(t, evidence.PolicyDecisionKind(), e.PolicyDecision)
	})
	artifact("action grant", func(t *testing.T, e evidence.Envelope) string {
		return idOf(t, evidence.ActionGrantKind(), e.Grant)
	})
	artifact("runtime attestation", func(t *testing.T, e evidence.Envelope) string {
		return idOf(t, evidence.RuntimeAttestationKind(), e.Attestation)
	})
	artifact("session receipt", func(t *testing.T, e evidence.Envelope) string {
		return idOf(t, evidence.SessionReceiptKind(), e.SessionReceipt)
	})
	artifact("deployment certificate", func(t *testing.T, e evidence.Envelope) string {
		return idOf(t, evidence.DeploymentCertificateKind(), e.DeploymentCertificate)
	})
	for _, purpose := range gatetest.Roles[:6] {
		rows = append(rows,
			row{"key for " + purpose + " revoked", "revoked", func(t *testing.T, k *gatetest.Kit) gate.AdmitRequest {
				r := k.Chain(t)
				revoke(t, k, evidence.RevokedKey, k.Key(t, purpose).KeyID())
				return r
			}}, row{"certificate of the key for " + purpose + " revoked", "revoked", func(t *testing.T,
				k *gatetest.Kit) gate.AdmitRequest {
				r := k.Chain(t)
				revoke(t, k, evidence.RevokedArtifact, idOf(t, evidence.SignerCertificateKind(), k.Certificates[purpose]))
				return r
			}})
	}
	for _, root := range []string{"auditor", "registry"} {
		rows = append(rows,
			altered("root key "+root+" revoked", "revoked", func(t *testing.T, k *gatetest.Kit, _ *gate.AdmitRequest) {
				revoke(t, k, evidence.RevokedKey, root)
			}))
	}
	return append(rows,
		altered("revocation list over", "revocations_stale", func(t *testing.T, k *gatetest.Kit, _ *gate.AdmitRequest) {
			k.Clock.Advance(-31 * 24 * time.Hour)
			k.Revoke(t)
			k.Clock.Advance(31 * 24 * time.Hour)
			k.Verifier.SetTrust(k.Trust(t))
			k.Revocations = ""
		}))
}

func TestRevokedAfterItWasAdmitted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		code string
		kind string
		id   func(t *testing.T, k *gatetest.Kit, r gate.AuthorizeRequest, c evidence.Capability) string
	}{
		"grant": {"revoked", evidence.RevokedArtifact,
			func(_ *testing.T, _ *gatetest.Kit, _ gate.AuthorizeRequest, c evidence.Capability) string {
				return c.GrantID
			}},
		"decision": {"revoked", evidence.RevokedArtifact,
			func(_ *testing.T, _ *gatetest.Kit, _ gate.AuthorizeRequest, c evidence.Capability) string {
				return c.DecisionID
			}},
		"attestation": {"revoked", evidence.RevokedArtifact,
			func(_ *testing.T, _ *gatetest.Kit, _ gate.AuthorizeRequest, c evidence.Capability) string {
				return c.Runtime.AttestationID
			}},
		"receipt": {"revoked", evidence.RevokedArtifact,
			func(_ *testing.T, _ *gatetest.Kit, _ gate.AuthorizeRequest, c evidence.Capability) string {
				return c.Session.ReceiptID
			}},
		"capability": {"revoked", evidence.RevokedArtifact,
			func(_ *testing.T, _ *gatetest.Kit, _ gate.AuthorizeRequest, c evidence.Capability) string {
				return c.ID
			}},
		"runtime key": {"revoked", evidence.RevokedKey,
			func(_ *testing.T, _ *gatetest.Kit, _ gate.AuthorizeRequest, c evidence.Capability) string {
				return c.Runtime.KeyID
			}},
		"request proof": {"revoked", evidence.RevokedArtifact,
			func(t *testing.T, _ *gatetest.Kit, r gate.AuthorizeRequest, _ evidence.Capability) string {
				return idOf(t, evidence.RequestProofKind(), r.RequestProof)
			}},
		"proof key": {"revoked", evidence.RevokedKey,
			func(t *testing.T, k *gatetest.Kit, _ gate.AuthorizeRequest, _ evidence.Capability) string {
				return k.Key(t, evidence.PurposeRequestProof).KeyID()
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := gatetest.New(t)
			r := authorizing(t, k)
			c, err := evidence.UnverifiedClaims(evidence.CapabilityKind(), r.Capability)
			check.Must(t, err)
			revoke(t, k, tt.kind, tt.id(t, k, r, c))
			a, err := k.Gate.Authorize(t.Context(), r)
			gatetest.WantCode(t, err, tt.code)
			if len(a.Keys) != 0 {
				t.Error("a refused post has keys")
			}
			k.Verifier.SetTrust(k.Trust(t))
			if _, err := k.Gate.Authorize(t.Context(), r); err != nil {
				t.Errorf("the valid post is not authorised: %v", err)
			}
		})
	}
}

func TestFreshRevocations(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	k.Revoke(t)
	under(t, k, func(m *policy.Manifest) { m.SignerCertificatePolicy.MaxRevocationListAgeMs = 60_000 })
	check.Must(t, admit(t, k, k.Chain(t)))
	k.Clock.Advance(time.Minute + 3*time.Second)
	gatetest.WantCode(t, admit(t, k, k.Chain(t)), "revocations_stale")
	k.Revoke(t)
	k.Verifier.SetTrust(k.Trust(t))
	if err := admit(t, k, k.Chain(t)); err != nil {
		t.Error(err)
	}
}
