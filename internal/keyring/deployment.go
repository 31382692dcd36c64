package keyring

import (
	"context"
	"fmt"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// CertifyDeployment signs a manifest that audits clean, and returns when the certificate ends. It refuses a manifest
// that would not accept the certificate.
func CertifyDeployment(ctx context.Context, auditor RootKey, m *policy.Manifest, o signer.Options) (token string,
	until time.Time, err error) {
	strict, err := m.Strict()
	if err != nil {
		return "", until, err
	}
	if token, err = policy.Certify(ctx, auditor, m, auditor.options(o)); err != nil {
		return "", until, err
	}
	cert, err := believed(auditor, token, strict, o.Now)
	if err != nil {
		return "", until, fmt.Errorf("the manifest's deploymentCertificatePolicy would not accept this certificate: %w",
			err)
	}
	return token, strict.Until(cert), nil
}

// CheckRenewal refuses (pin_mismatch) a manifest other than the one that the bundle's certificate names, and a
// certificate that the auditor has not signed. It may have expired.
func CheckRenewal(auditor RootKey, bundle string, m *policy.Manifest) error {
	b, _, err := archive.ReadAnyBundle(bundle)
	if err != nil {
		return err
	}
	certified, err := evidence.UnverifiedClaims(evidence.DeploymentCertificateKind(), b.DeploymentCertificate)
	if err == nil && certified.ManifestHash != m.Hash() {
		err = refusal.New("pin_mismatch",
			"%s certifies manifest %s, but this is manifest %s: review the change, and sign without --renew", bundle,
			certified.ManifestHash, m.Hash())
	}
	if err != nil {
		return err
	}
	strict, err := m.Strict()
	if err == nil {
		_, err = believed(auditor, b.DeploymentCertificate, strict,
			func() time.Time { return time.Unix(certified.IssuedAt, 0) })
	}
	return err
}

// believed verifies a certificate like a process that pins the auditor and has the manifest behind strict.
func believed(auditor RootKey, token string, strict *policy.Strict,
	now func() time.Time) (evidence.DeploymentCertificate, error) {
	v, err := verifier(auditor.Pinned(evidence.PurposeDeploymentCertificate), strict.Signers, now)
	if err != nil {
		return evidence.DeploymentCertificate{}, err
	}
	return policy.VerifyCertificate(v, token, strict)
}

// verifier returns one that knows only a root key.
func verifier(root evidence.Root, p evidence.SignerPolicy, now func() time.Time) (*evidence.Verifier, error) {
	trust, err := evidence.NewTrust([]evidence.Root{root}, evidence.Bundle{}, p)
	if err != nil {
		return nil, err
	}
	return evidence.NewVerifier(trust, evidence.VerifierOptions{Now: now})
}
