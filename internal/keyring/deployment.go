package keyring

import (
	"context"
	"fmt"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// CertifyDeployment signs a manifest that audits clean, and returns the end of the certificate's validity. It refuses
// to sign if the manifest itself would not accept the certificate, because it allows another auditor, issuer or
// audience. Every process that reads such a certificate would refuse it.
func CertifyDeployment(ctx context.Context, auditor RootKey, m *policy.Manifest, o signer.Options) (token string, until time.Time, err error) {
	strict, err := m.Strict()
	if err != nil {
		return "", until, err
	}
	if token, err = policy.Certify(ctx, auditor, m, auditor.options(o)); err != nil {
		return "", until, err
	}
	trust, err := evidence.NewTrust([]evidence.Root{auditor.Pinned(evidence.PurposeDeploymentCertificate)}, evidence.Bundle{}, strict.Signers)
	if err != nil {
		return "", until, err
	}
	v, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: o.Now})
	if err != nil {
		return "", until, err
	}
	cert, err := policy.VerifyCertificate(v, token, strict)
	if err != nil {
		return "", until, fmt.Errorf("the manifest would not believe this certificate, by its deploymentCertificatePolicy: %w", err)
	}
	return token, strict.Until(cert), nil
}
