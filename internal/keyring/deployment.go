package keyring

import (
	"context"
	"fmt"
	"time"

	"github.com/actionproof/mediator/evidence"
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
		return "", until, fmt.Errorf("the manifest's deploymentCertificatePolicy would not accept this certificate: %w", err)
	}
	return token, strict.Until(cert), nil
}

// believed verifies a certificate like a process that pins the auditor and has the manifest behind strict.
func believed(auditor RootKey, token string, strict *policy.Strict,
	now func() time.Time) (evidence.DeploymentCertificate, error) {
	trust, err := evidence.NewTrust([]evidence.Root{auditor.Pinned(evidence.PurposeDeploymentCertificate)},
		evidence.Bundle{}, strict.Signers)
	if err != nil {
		return evidence.DeploymentCertificate{}, err
	}
	v, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: now})
	if err != nil {
		return evidence.DeploymentCertificate{}, err
	}
	return policy.VerifyCertificate(v, token, strict)
}
