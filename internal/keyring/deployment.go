package keyring

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// CertifyDeployment signs a manifest that audits clean, and returns when the certificate ends. It refuses a manifest
// that would not accept the certificate, because it allows only another auditor, issuer or audience.
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

// renewalPoll is the time between two checks for a certificate to renew.
const renewalPoll = time.Second

// RenewContinuously calls RenewDeployment again and again until ctx ends, and logs each error once.
func RenewContinuously(ctx context.Context, auditor RootKey, m *policy.Manifest, o signer.Options, bundle string,
	log *zap.Logger) {
	said := ""
	for range every.Tick(ctx, renewalPoll) {
		until, err := RenewDeployment(ctx, auditor, m, o, bundle)
		switch {
		case ctx.Err() != nil:
		case err == nil && !until.IsZero():
			log.Info("the deployment is certified anew", zap.String("deployment", m.DeploymentID), zap.Time("until", until))
			said = ""
		case err == nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			log.Error("the deployment certificate is not renewed", zap.Error(err))
		}
	}
}

// RenewDeployment signs m again if half of the certificate's time is over, or the bundle has none. It returns the new
// end, or zero if nothing was due. It never replaces the certificate of another manifest or auditor, or a revoked one.
func RenewDeployment(ctx context.Context, auditor RootKey, m *policy.Manifest, o signer.Options,
	bundle string) (until time.Time, err error) {
	strict, err := m.Strict()
	if err != nil {
		return until, err
	}
	err = UpdateBundle(bundle, func(b *evidence.Bundle) error {
		if due, err := renewalDue(auditor, *b, strict, o.Now()); err != nil || !due {
			return err
		}
		token, end, err := CertifyDeployment(ctx, auditor, m, o)
		if err != nil {
			return err
		}
		until = end
		return putDeployment(b, bundle, token, m)
	})
	return until, err
}

func renewalDue(auditor RootKey, b evidence.Bundle, strict *policy.Strict, now time.Time) (bool, error) {
	if b.DeploymentCertificate == "" {
		return true, nil
	}
	said, err := evidence.UnverifiedClaims(evidence.DeploymentCertificateKind(), b.DeploymentCertificate)
	if err != nil {
		return false, err
	}
	issued := time.Unix(said.IssuedAt, 0)
	// it may have ended since
	cert, err := believed(auditor, b.DeploymentCertificate, strict, func() time.Time { return issued })
	if err != nil {
		return false, fmt.Errorf("the bundle has a deployment certificate that is not of this manifest and auditor; certify "+
			"the current manifest: %w", err)
	}
	if b.Revocations != "" {
		// The auditor does not pin the registry that signed the list. A forged list can only prevent a renewal.
		list, err := evidence.UnverifiedClaims(evidence.RevocationListKind(), b.Revocations)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(list.Revoked, func(r evidence.Revocation) bool {
			return r.Kind == evidence.RevokedArtifact && r.ID == cert.ID
		}) {
			return false,
				refusal.New("revoked", "the certificate of deployment %s was revoked, and is not renewed; certify the "+
					"deployment again if it is to count", cert.DeploymentID)
		}
	}
	half := strict.Until(cert).Sub(issued) / 2
	return !now.Before(issued.Add(half)), nil
}
