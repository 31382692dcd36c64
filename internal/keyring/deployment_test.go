package keyring_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/manifest"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

// TestCheckRenewal: only the auditor's own certificate makes a timer certify its manifest again, also once it has
// ended.
func TestCheckRenewal(t *testing.T) {
	auditor, _, err := keyring.GenerateRoot("auditor", false)
	check.Must(t, err)
	thief, _, err := keyring.GenerateRoot("auditor", false)
	check.Must(t, err)
	m, err := manifest.Parse(configs.Dev["manifest.yaml"])
	check.Must(t, err)
	bundle := filepath.Join(t.TempDir(), "trust.json")
	for i, by := range []keyring.RootKey{auditor, thief} {
		token, _, err := keyring.CertifyDeployment(t.Context(), by, m, signer.Options{Issuer: "deployment-auditor",
			Audience: "posting-api", Lifetime: time.Hour,
			Now: func() time.Time { return time.Now().Add(-2 * time.Hour) }})
		check.Must(t, err, keyring.PutDeployment(bundle, token, m))
		if err := keyring.CheckRenewal(auditor, bundle, m); (err == nil) != (i == 0) {
			t.Errorf("the certificate %d: %v", i, err)
		}
	}
}
