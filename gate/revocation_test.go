package gate_test

import (
	"encoding/json"
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

func idOf(t *testing.T, token string) string {
	t.Helper()
	var c evidence.Registered
	check.Must(t, json.Unmarshal(part(t, token, 1), &c))
	return c.ID
}

func revokedRows() []row {
	var rows []row
	for _, a := range signed {
		rows = append(rows, altered(a.name+" revoked", "revoked",
			func(t *testing.T, k *gatetest.Kit, r *gate.AdmitRequest) {
				revoke(t, k, evidence.RevokedArtifact, idOf(t, *a.at(&r.Envelope)))
			}))
	}
	for _, purpose := range gatetest.Roles[:6] {
		rows = append(rows,
			altered("key for "+purpose+" revoked", "revoked",
				func(t *testing.T, k *gatetest.Kit, _ *gate.AdmitRequest) {
					revoke(t, k, evidence.RevokedKey, k.Key(t, purpose).KeyID())
				}),
			altered("certificate of the key for "+purpose+" revoked", "revoked",
				func(t *testing.T, k *gatetest.Kit, _ *gate.AdmitRequest) {
					revoke(t, k, evidence.RevokedArtifact, idOf(t, k.Certificates[purpose]))
				}))
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
		kind string
		id   func(c evidence.Capability) string // nil: the request proof's, or its key's
	}{
		"grant":    {evidence.RevokedArtifact, func(c evidence.Capability) string { return c.GrantID }},
		"decision": {evidence.RevokedArtifact, func(c evidence.Capability) string { return c.DecisionID }},
		"attestation": {evidence.RevokedArtifact,
			func(c evidence.Capability) string { return c.Runtime.AttestationID }},
		"receipt":       {evidence.RevokedArtifact, func(c evidence.Capability) string { return c.Session.ReceiptID }},
		"capability":    {evidence.RevokedArtifact, func(c evidence.Capability) string { return c.ID }},
		"runtime key":   {evidence.RevokedKey, func(c evidence.Capability) string { return c.Runtime.KeyID }},
		"request proof": {evidence.RevokedArtifact, nil},
		"proof key":     {evidence.RevokedKey, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := gatetest.New(t)
			r := authorizing(t, k)
			c, err := evidence.UnverifiedClaims(evidence.CapabilityKind(), r.Capability)
			check.Must(t, err)
			id := idOf(t, r.RequestProof)
			switch {
			case tt.id != nil:
				id = tt.id(c)
			case tt.kind == evidence.RevokedKey:
				id = k.Key(t, evidence.PurposeRequestProof).KeyID()
			}
			revoke(t, k, tt.kind, id)
			a, err := k.Gate.Authorize(t.Context(), r)
			gatetest.WantCode(t, err, "revoked")
			if len(a.Keys) != 0 {
				t.Error("a refused post has keys")
			}
			k.Verifier.SetTrust(k.Trust(t))
			_, err = k.Gate.Authorize(t.Context(), r)
			check.Must(t, err)
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
