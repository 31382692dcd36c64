package policy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

const auditor = evidence.PurposeDeploymentCertificate

func TestCertificate(t *testing.T) {
	k := gatetest.New(t)
	c, err := policy.VerifyCertificate(k.Verifier, k.Deployment, k.Strict)
	check.Must(t, err)
	if c.ManifestHash != k.Manifest.Hash() || c.ControlsHash != k.Manifest.ControlsHash() ||
		c.DeploymentID != "posting-dev" || c.Version != "1.0" {
		t.Errorf("the certificate says %+v", c)
	}
}

func TestCertifyRefusesAnUnsafeManifest(t *testing.T) {
	k := gatetest.New(t)
	k.Manifest.Controls.BearerTokenAloneCanPost = true
	token, err := policy.Certify(t.Context(), k.Custody(auditor), k.Manifest, k.Options(auditor))
	check.WantCode(t, err, "deployment_unsafe", "control_bearer_token_alone_can_post")
	if token != "" {
		t.Error("it was signed all the same")
	}
}

func TestVerifyCertificateRefuses(t *testing.T) {
	k := gatetest.New(t)
	other := strings.Repeat("a", 64)
	claiming := func(claim, value string) string {
		return gatetest.Resign(t, k, evidence.DeploymentCertificateKind(), k.Deployment, claim, value)
	}
	signed := func(purpose string, edit func(*signer.Options)) string {
		o := k.Options(auditor)
		edit(&o)
		token, err := policy.Certify(t.Context(), k.Custody(purpose), k.Manifest, o)
		check.Must(t, err)
		return token
	}
	ago := func(d time.Duration) func() time.Time { return func() time.Time { return k.Clock.Now().Add(-d) } }
	for name, c := range map[string]struct{ token, code string }{
		"another manifest":   {claiming("manifestHash", other), "deployment_mismatch"},
		"other controls":     {claiming("controlsHash", other), "deployment_mismatch"},
		"another deployment": {claiming("deploymentId", "posting-prod"), "deployment_mismatch"},
		"another role's key": {signed(evidence.PurposePolicyDecision, func(*signer.Options) {}), "key_purpose"},
		"the registry's key": {signed(evidence.PurposeSignerCertificate, func(*signer.Options) {}), "key_purpose"},
		"another audience":   {signed(auditor, func(o *signer.Options) { o.Audience = "other" }), "not_allowed"},
		"another issuer":     {signed(auditor, func(o *signer.Options) { o.Issuer = "other" }), "not_allowed"},
		"expired": {signed(auditor, func(o *signer.Options) {
			o.Lifetime, o.Now = time.Hour, ago(2*time.Hour)
		}), "expired"},
		"older than the policy accepts": {signed(auditor, func(o *signer.Options) {
			o.Lifetime, o.Now = 72*time.Hour, ago(25*time.Hour)
		}), "expired"},
		"none": {"", "artifact_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.VerifyCertificate(k.Verifier, c.token, k.Strict)
			check.WantCode(t, err, c.code)
		})
	}
	if _, err := policy.VerifyCertificate(k.Verifier, k.Deployment, nil); err == nil {
		t.Error("a certificate was verified against nothing")
	}
	if _, err := policy.VerifyCertificate(nil, k.Deployment, k.Strict); err == nil {
		t.Error("a certificate was verified by nobody")
	}
}

func TestCertificateEnds(t *testing.T) {
	k := gatetest.New(t)
	o := k.Options(auditor)
	for lifetime, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, 72 * time.Hour: 24 * time.Hour} {
		o.Lifetime = lifetime
		token, err := policy.Certify(t.Context(), k.Custody(auditor), k.Manifest, o)
		check.Must(t, err)
		c, err := policy.VerifyCertificate(k.Verifier, token, k.Strict)
		check.Must(t, err)
		if got := k.Strict.Until(c); !got.Equal(time.Unix(c.IssuedAt, 0).Add(want)) {
			t.Errorf("%s: it ends at %s", lifetime, got)
		}
	}
}

func TestManifestChangedAfterItWasCertified(t *testing.T) {
	k := gatetest.New(t)
	k.Manifest.GrantPolicy.MaxProofAgeMs = 20_000
	s, err := k.Manifest.Strict()
	check.Must(t, err)
	_, err = policy.VerifyCertificate(k.Verifier, k.Deployment, s)
	check.WantCode(t, err, "deployment_mismatch", k.Manifest.Hash())
}

func TestPostQuantumIsDemanded(t *testing.T) {
	k := gatetest.New(t)
	k.Strict.Deployment.RequirePostQuantum = true
	_, err := policy.VerifyCertificate(k.Verifier, k.Deployment, k.Strict)
	check.WantCode(t, err, "roots_not_pinned")
	k.Strict.Signers.RequirePostQuantum = true
	check.WantCode(t, k.Believe(t, k.Certificates[evidence.PurposeActionGrant]), "roots_not_pinned")
}

type broken struct{}

var errBroken = errors.New("the key is out of reach")

func (broken) Current(context.Context) (custody.Version, error) { return custody.Version{}, errBroken }
func (broken) Properties() custody.Properties                   { return custody.Properties{} }

func TestCertifyFails(t *testing.T) {
	k := gatetest.New(t)
	o := k.Options(auditor)
	if token, err := policy.Certify(t.Context(), broken{}, k.Manifest, o); !errors.Is(err, errBroken) || token != "" {
		t.Errorf("%q, %v", token, err)
	}
	o.Lifetime = 0
	if token, err := policy.Certify(t.Context(), k.Custody(auditor), k.Manifest, o); err == nil || token != "" {
		t.Errorf("%q, %v", token, err)
	}
}

func TestCertificateOfAListedDeployment(t *testing.T) {
	k := gatetest.New(t)
	for name, change := range map[string]func(*policy.Strict){
		"listed, and another": func(s *policy.Strict) {
			s.DeploymentID, s.Deployment.DeploymentIDs = "other", []string{"other", "posting-dev"}
		},
		"not listed": func(s *policy.Strict) { s.Deployment.DeploymentIDs = []string{"other"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := *k.Strict
			change(&s)
			_, err := policy.VerifyCertificate(k.Verifier, k.Deployment, &s)
			check.WantCode(t, err, "deployment_mismatch")
		})
	}
}
