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

func withoutAuditor(t *testing.T, k *gatetest.Kit) *evidence.Trust {
	t.Helper()
	key := k.Key(t, evidence.PurposeSignerCertificate)
	trust, err := evidence.NewTrust(
		[]evidence.Root{{KeyID: key.KeyID(), Public: key.Public(), Purpose: evidence.PurposeSignerCertificate}},
		evidence.Bundle{Certificates: []string{k.Certificates[evidence.PurposeRuntimeAttestation]}}, k.Strict.Signers)
	check.Must(t, err)
	return trust
}

func TestDeploymentIsJudgedAgain(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) func(*testing.T, *gatetest.Kit) {
		return func(_ *testing.T, k *gatetest.Kit) { k.Clock.Advance(d) }
	}
	for _, row := range []struct {
		name, code string
		change     func(*testing.T, *gatetest.Kit)
	}{
		{"the auditor is no longer pinned", "key_unknown", func(t *testing.T, k *gatetest.Kit) {
			k.Verifier.SetTrust(withoutAuditor(t, k))
		}},
		{"the certificate has expired", "expired", after(24*time.Hour + 2*time.Second)},
		{"the clock was set back", "clock_skew", after(-3 * time.Second)},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			k := gatetest.New(t)
			var used gatetest.Used
			for range 2 {
				admits(t, k.Gate, k.Chain(t), used.Consume)
			}
			row.change(t, k)
			a, err := gatetest.Admit(t.Context(), k.Gate, gate.AdmitRequest{
				Envelope: evidence.Envelope{DeploymentCertificate: k.Deployment}, Binding: gatetest.Binding(),
			}, used.Consume)
			gatetest.WantCode(t, err, row.code)
			if len(a.Checks) != 1 || a.Checks[0].Name != "deployment certificate" || a.Checks[0].OK {
				t.Errorf("the checks are %+v", a.Checks)
			}
		})
	}
}

func TestOldDeploymentIsJudgedAgain(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t, func(m *policy.Manifest) { m.DeploymentCertificatePolicy.MaxCertificateAgeMs = 3_600_000 })
	var used gatetest.Used
	for _, row := range []struct {
		after time.Duration
		code  string
	}{{0, ""}, {time.Hour - time.Second, ""}, {3 * time.Second, ""}, {time.Second, "expired"}} {
		k.Clock.Advance(row.after)
		_, err := gatetest.Admit(t.Context(), k.Gate, k.Chain(t), used.Consume)
		if row.code == "" {
			check.Must(t, err)
			continue
		}
		gatetest.WantCode(t, err, row.code)
	}
}

func TestOtherDeployment(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	var used gatetest.Used
	admits(t, k.Gate, k.Chain(t), used.Consume)
	r := k.Chain(t)
	r.Envelope.DeploymentCertificate = gatetest.Resign(t, k, evidence.DeploymentCertificateKind(), k.Deployment,
		"manifestHash", other)
	_, err := gatetest.Admit(t.Context(), k.Gate, r, used.Consume)
	gatetest.WantCode(t, err, "deployment_mismatch")
	r.Envelope.DeploymentCertificate = k.Certify(t, k.Manifest)
	admits(t, k.Gate, r, used.Consume)
}

// TestTrustReplacedMeanwhile: what held under a new trust is not remembered for the old one.
func TestTrustReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	before, after := withoutAuditor(t, k), k.Trust(t)
	var v *evidence.Verifier
	replace := func() { v.SetTrust(after) }
	v, err := evidence.NewVerifier(before, evidence.VerifierOptions{Now: func() time.Time {
		replace() // between the look at the trust and the verification
		return k.Clock.Now()
	}})
	check.Must(t, err)
	g := gateWith(t, k, v)
	var used gatetest.Used
	admits(t, g, k.Chain(t), used.Consume)
	replace = func() {}
	v.SetTrust(before)
	a, err := gatetest.Admit(t.Context(), g, k.Chain(t), used.Consume)
	gatetest.WantCode(t, err, "key_unknown")
	if len(a.Checks) != 1 {
		t.Errorf("the certificate is remembered: %+v", a.Checks)
	}
}
