package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/signer"
)

// Certify signs a manifest with the deployment auditor's key (seed: createStrictAutonomousDeploymentCertificate). It
// refuses a manifest with issues (deployment_unsafe).
func Certify(ctx context.Context, key signer.Key, m *Manifest, o signer.Options) (token string, err error) {
	if _, err := m.Strict(); err != nil {
		return "", err
	}
	issuer, err := signer.New(evidence.DeploymentCertificateKind(), key, o)
	if err != nil {
		return "", err
	}
	token, _, err = issuer.Sign(ctx, evidence.DeploymentCertificate{
		ControlsHash: m.ControlsHash(), DeploymentID: m.DeploymentID, ManifestHash: m.Hash(), Version: m.Version,
	})
	if err != nil {
		return "", fmt.Errorf("certify the deployment: %w", err)
	}
	return token, nil
}

// VerifyCertificate verifies a pinned auditor's deployment certificate for the manifest behind s (seed:
// verifyStrictAutonomousDeploymentCertificate).
func VerifyCertificate(v *evidence.Verifier, token string, s *Strict) (evidence.DeploymentCertificate, error) {
	if v == nil || s == nil {
		return evidence.DeploymentCertificate{},
			errors.New("policy: verifying a deployment certificate needs a verifier and a manifest")
	}
	o, err := evidence.Open(v, evidence.DeploymentCertificateKind(), token, s.Deployment.Expected)
	if err == nil {
		err = s.certified(o.Claims())
	}
	if err != nil {
		return evidence.DeploymentCertificate{}, err
	}
	return o.Claims(), nil
}

// Until returns when a valid certificate ends: at its exp, or at the manifest's greatest age if that is earlier.
func (s *Strict) Until(c evidence.DeploymentCertificate) time.Time {
	end, tooOld := time.Unix(c.Expires, 0), time.Unix(c.IssuedAt, 0).Add(s.Deployment.MaxAge)
	if tooOld.Before(end) {
		end = tooOld
	}
	return end.UTC()
}

func (s *Strict) certified(c evidence.DeploymentCertificate) error {
	switch {
	case c.DeploymentID != s.DeploymentID || !slices.Contains(s.Deployment.DeploymentIDs, c.DeploymentID):
		return refusal.New("deployment_mismatch", "the certificate is for deployment %q; this deployment is %q",
			c.DeploymentID, s.DeploymentID)
	case c.ManifestHash != s.ManifestHash:
		return refusal.New("deployment_mismatch",
			"the certificate is not for the current manifest, which has hash %s", s.ManifestHash)
	case c.ControlsHash != s.ControlsHash:
		return refusal.New("deployment_mismatch",
			"the certificate is not for the current controls, which have hash %s", s.ControlsHash)
	}
	return nil
}
