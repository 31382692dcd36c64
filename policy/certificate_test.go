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
	"github.com/actionproof/mediator/test/policytest"
)

func auditor(lifetime time.Duration) signer.Options {
	return signer.Options{Issuer: "deployment-auditor", Audience: "posting-api", Lifetime: lifetime, Now: policytest.Clock}
}

func TestCertificate(t *testing.T) {
	w := policytest.New(t, nil)
	token, err := policy.Certify(t.Context(), w.Keys["auditor"], w.Manifest, auditor(time.Hour))
	check.Must(t, err)
	c, err := policy.VerifyCertificate(w.Verifier, token, w.Strict)
	check.Must(t, err)
	if c.ManifestHash != w.Manifest.Hash() || c.ControlsHash != w.Manifest.ControlsHash() ||
		c.DeploymentID != "posting-dev" || c.Version != "1.0" {
		t.Errorf("the certificate says %+v", c)
	}
}

func TestCertifyRefusesAnUnsafeManifest(t *testing.T) {
	w := policytest.New(t, nil)
	w.Manifest.Controls.BearerTokenAloneCanPost = true
	token, err := policy.Certify(t.Context(), w.Keys["auditor"], w.Manifest, auditor(time.Hour))
	check.WantCode(t, err, "deployment_unsafe", "control_bearer_token_alone_can_post")
	if token != "" {
		t.Error("it was signed all the same")
	}
}

func TestVerifyCertificateRefuses(t *testing.T) {
	w := policytest.New(t, nil)
	sign := func(key signer.Key, o signer.Options, change func(*evidence.DeploymentCertificate)) string {
		c := evidence.DeploymentCertificate{DeploymentID: w.Manifest.DeploymentID, ManifestHash: w.Manifest.Hash(),
			ControlsHash: w.Manifest.ControlsHash(), Version: "1.0"}
		if change != nil {
			change(&c)
		}
		i, err := signer.New(evidence.DeploymentCertificateKind(), key, o)
		check.Must(t, err)
		token, _, err := i.Sign(t.Context(), c)
		check.Must(t, err)
		return token
	}
	key, other := w.Keys["auditor"], strings.Repeat("a", 64)
	for name, c := range map[string]struct{ token, code string }{
		"another manifest": {sign(key, auditor(time.Hour), func(c *evidence.DeploymentCertificate) {
			c.ManifestHash = other
		}), "deployment_mismatch"},
		"other controls": {sign(key, auditor(time.Hour), func(c *evidence.DeploymentCertificate) {
			c.ControlsHash = other
		}), "deployment_mismatch"},
		"another deployment": {sign(key, auditor(time.Hour), func(c *evidence.DeploymentCertificate) {
			c.DeploymentID = "posting-prod"
		}), "deployment_mismatch"},
		"another role's key": {sign(w.Keys["policy-decision-key"], auditor(time.Hour), nil), "key_purpose"},
		"the registry's key": {sign(w.Keys["registry"], auditor(time.Hour), nil), "key_purpose"},
		"another audience": {
			sign(key, signer.Options{Issuer: "deployment-auditor", Audience: "other", Lifetime: time.Hour,
				Now: policytest.Clock}, nil), "not_allowed"},
		"another issuer": {
			sign(key, signer.Options{Issuer: "other", Audience: "posting-api", Lifetime: time.Hour, Now: policytest.Clock}, nil),
			"not_allowed"},
		"expired": {sign(key, signer.Options{Issuer: "deployment-auditor", Audience: "posting-api", Lifetime: time.Hour,
			Now: func() time.Time { return policytest.Start.Add(-2 * time.Hour) }}, nil), "expired"},
		"older than the policy accepts": {
			sign(key, signer.Options{Issuer: "deployment-auditor", Audience: "posting-api", Lifetime: 72 * time.Hour,
				Now: func() time.Time { return policytest.Start.Add(-25 * time.Hour) }}, nil), "expired"},
		"none": {"", "artifact_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.VerifyCertificate(w.Verifier, c.token, w.Strict)
			check.WantCode(t, err, c.code)
		})
	}
	_, err := policy.VerifyCertificate(w.Verifier, sign(key, auditor(time.Hour), nil), w.Strict)
	check.Must(t, err)
}

func TestCertificateEnds(t *testing.T) {
	w := policytest.New(t, nil)
	for lifetime, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, 72 * time.Hour: 24 * time.Hour} {
		token, err := policy.Certify(t.Context(), w.Keys["auditor"], w.Manifest, auditor(lifetime))
		check.Must(t, err)
		c, err := policy.VerifyCertificate(w.Verifier, token, w.Strict)
		check.Must(t, err)
		if got := w.Strict.Until(c); !got.Equal(time.Unix(c.IssuedAt, 0).Add(want)) {
			t.Errorf("%s: it ends at %s", lifetime, got)
		}
	}
}

func TestManifestChangedAfterItWasCertified(t *testing.T) {
	w := policytest.New(t, nil)
	token, err := policy.Certify(t.Context(), w.Keys["auditor"], w.Manifest, auditor(time.Hour))
	check.Must(t, err)
	w.Manifest.GrantPolicy.MaxProofAgeMs = 20_000
	s, err := w.Manifest.Strict()
	check.Must(t, err)
	_, err = policy.VerifyCertificate(w.Verifier, token, s)
	check.WantCode(t, err, "deployment_mismatch", w.Manifest.Hash())
	if _, err := policy.VerifyCertificate(w.Verifier, token, nil); err == nil {
		t.Error("a certificate was verified against nothing")
	}
}

func TestPostQuantumIsDemanded(t *testing.T) {
	w := policytest.New(t, func(m *policy.Manifest) { m.DeploymentCertificatePolicy.RequirePostQuantumSignature = true })
	token, err := policy.Certify(t.Context(), w.Keys["auditor"], w.Manifest, auditor(time.Hour))
	check.Must(t, err)
	_, err = policy.VerifyCertificate(w.Verifier, token, w.Strict)
	check.WantCode(t, err, "roots_not_pinned")

	m := policytest.Example(t)
	m.SignerCertificatePolicy.RequirePostQuantumSignature = true
	s, err := m.Strict()
	check.Must(t, err)
	registry := policytest.Current(t, w.Keys["registry"])
	v := policytest.Current(t, w.Keys["action-grant-key"])
	cert, _, err := policytest.Issuer(t, evidence.SignerCertificateKind(), w.Keys["registry"], "key-registry",
		"posting-api",
		time.Hour).Sign(t.Context(), evidence.SignerCertificate{
		KeyCustody: evidence.CustodyExternalMediator, Purposes: []string{evidence.PurposeActionGrant},
		SubjectIssuer: "mediator-authorization", SubjectKeyID: v.KeyID(),
		SubjectPublicKey: evidence.EncodePublicKey(v.Public()), SubjectPublicKeyHash: evidence.HashBytes(v.Public()),
	})
	check.Must(t, err)
	_, err = evidence.NewTrust(
		[]evidence.Root{{KeyID: registry.KeyID(), Public: registry.Public(), Purpose: evidence.PurposeSignerCertificate}},
		evidence.Bundle{Certificates: []string{cert}}, s.Signers)
	check.WantCode(t, err, "roots_not_pinned")
}

type broken struct{}

var errBroken = errors.New("the key is out of reach")

func (broken) Current(context.Context) (custody.Version, error) { return custody.Version{}, errBroken }
func (broken) Properties() custody.Properties                   { return custody.Properties{} }

func TestCertifyFails(t *testing.T) {
	w := policytest.New(t, nil)
	if token, err := policy.Certify(t.Context(), w.Keys["auditor"], w.Manifest, auditor(0)); err == nil || token != "" {
		t.Errorf("%q, %v", token, err)
	}
	if token, err := policy.Certify(t.Context(), broken{}, w.Manifest, auditor(time.Hour)); !errors.Is(err, errBroken) ||
		token != "" {
		t.Errorf("%q, %v", token, err)
	}
}

func TestCertificateOfAListedDeployment(t *testing.T) {
	w := policytest.New(t, nil)
	token, err := policy.Certify(t.Context(), w.Keys["auditor"], w.Manifest, auditor(time.Hour))
	check.Must(t, err)
	for name, change := range map[string]func(*policy.Strict){
		"listed, and another": func(s *policy.Strict) {
			s.DeploymentID, s.Deployment.DeploymentIDs = "other", []string{"other", "posting-dev"}
		},
		"not listed": func(s *policy.Strict) { s.Deployment.DeploymentIDs = []string{"other"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := *w.Strict
			change(&s)
			_, err := policy.VerifyCertificate(w.Verifier, token, &s)
			check.WantCode(t, err, "deployment_mismatch")
		})
	}
	if _, err := policy.VerifyCertificate(nil, token, w.Strict); err == nil {
		t.Error("a certificate was verified by nobody")
	}
}
