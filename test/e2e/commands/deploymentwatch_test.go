package commands

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// certifiedBundle makes a team whose bundle certifies the example manifest for a day. It returns the arguments and the
// claims of that certificate.
func certifiedBundle(t *testing.T) (d kit.Team, args []string, claims evidence.DeploymentCertificate) {
	t.Helper()
	d = kit.NewTeam(t)
	kit.Run(t, "keys", "root", "--name", "auditor", "--out", d.Dir)
	args = certifying(d, exampleManifest)
	kit.Run(t, args...)
	return d, args, deployment(t, d)
}

const exampleManifest = kit.Top + "/configs/" + devstack.ManifestFile

func certifying(d kit.Team, manifest string) []string {
	return []string{"deployment", "certify", manifest, "--auditor-key", d.At("auditor.key.jwk"), "--audience",
		"posting-api", "--bundle", d.Bundle}
}

func deployment(t *testing.T, d kit.Team) evidence.DeploymentCertificate {
	t.Helper()
	b, _, err := config.ReadBundle(d.Bundle)
	check.Must(t, err)
	claims, err := evidence.UnverifiedClaims(evidence.DeploymentCertificateKind(), b.DeploymentCertificate)
	check.Must(t, err)
	return claims
}

// TestRenewDeployment: the certificate of the manifest is renewed after half of its time, and never in place of a
// certificate that the auditor has not signed for this manifest or that was revoked.
func TestRenewDeployment(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		after   time.Duration
		change  func(t *testing.T, d kit.Team, id string)
		renewed bool
		code    string
	}{
		"before half of its time": {after: 11 * time.Hour},
		"after half of its time":  {after: 13 * time.Hour, renewed: true},
		"after its end":           {after: 50 * time.Hour, renewed: true},
		"the bundle has none": {renewed: true, change: func(t *testing.T, d kit.Team, _ string) {
			check.Must(t, keyring.UpdateBundle(d.Bundle, func(b *evidence.Bundle) error {
				b.DeploymentCertificate = ""
				return nil
			}))
		}},
		"the bundle has another manifest's": {after: 13 * time.Hour, code: "deployment_mismatch",
			change: func(t *testing.T, d kit.Team, _ string) {
				other := d.At("other.yaml")
				kit.Write(t, other, kit.Read(t, exampleManifest))
				kit.Edit(t, other, "maxCertificateAgeMs: 86400000", "maxCertificateAgeMs: 86300000")
				kit.Run(t, certifying(d, other)...)
			}},
		"it was revoked": {after: 13 * time.Hour, code: "revoked", change: func(t *testing.T, d kit.Team, id string) {
			check.Must(t, keyring.UpdateBundle(d.Bundle, func(b *evidence.Bundle) error { b.Revocations = ""; return nil }))
			d.Must(t, "revoke", "--artifact", id, "--reason", "a drill")
		}},
		"another auditor has signed it": {after: 13 * time.Hour, code: "signature_invalid",
			change: func(t *testing.T, d kit.Team, _ string) {
				kit.Run(t, "keys", "root", "--name", "auditor", "--out", d.At("again"))
				check.Must(t, os.Rename(d.At("again/auditor.key.jwk"), d.At("auditor.key.jwk")))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			d, args, first := certifiedBundle(t)
			if tt.change != nil {
				tt.change(t, d, first.ID)
			}
			auditor, err := keyring.OpenRootKey(t.Context(), d.At("auditor.key.jwk"), io.Discard,
				evidence.PurposeDeploymentCertificate)
			check.Must(t, err)
			m, err := config.ReadManifest(args[2])
			check.Must(t, err)
			before := kit.Read(t, d.Bundle)
			now := time.Unix(first.IssuedAt, 0).Add(tt.after)
			o := signer.Options{Issuer: first.Issuer, Audience: first.Audience, Lifetime: 24 * time.Hour,
				Now: func() time.Time { return now }}
			until, err := keyring.RenewDeployment(t.Context(), auditor, m, o, d.Bundle)
			if tt.code == "" {
				check.Must(t, err)
			} else {
				check.WantCode(t, err, tt.code)
			}
			after := kit.Read(t, d.Bundle)
			if until.IsZero() == tt.renewed || bytes.Equal(before, after) == tt.renewed {
				t.Fatalf("good until %s; the bundle has changed: %t, want %t", until, !bytes.Equal(before, after), tt.renewed)
			}
			if c := deployment(t, d); tt.renewed &&
				(c.ManifestHash != first.ManifestHash || c.ID == first.ID || c.Expires != now.Add(24*time.Hour).Unix()) {
				t.Errorf("the new certificate says %+v", c)
			}
		})
	}
}

// TestDeploymentWatch renews a certificate of a few seconds for the manifest that was certified first.
func TestDeploymentWatch(t *testing.T) {
	t.Parallel()
	d, args, first := certifiedBundle(t)
	stop := kit.Background(t, append(args, "--watch", "--lifetime", "4s")...)
	seen := map[string]bool{first.ID: true}
	kit.Until(t, "a renewed certificate", func() bool {
		c := deployment(t, d)
		seen[c.ID] = true
		return len(seen) >= 4 && c.ManifestHash == first.ManifestHash // the second renewal follows the report of the first
	})
	if said := stop(); !strings.Contains(said, "the deployment is certified anew") {
		t.Errorf("said %s", said)
	}
}
