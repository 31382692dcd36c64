package gatetest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
)

// Secret is the text of every kit's secret.
const Secret = "a secret of the gate, 32 bytes or more"

// Files writes the parts of an API's gate into a folder.
func (k *Kit) Files(t testing.TB, dir string) gate.Files {
	t.Helper()
	f := gate.Files{
		Registry: filepath.Join(dir, "registry.jwk"), Auditor: filepath.Join(dir, "auditor.jwk"),
		Manifest: filepath.Join(dir, "manifest.json"), Bundle: filepath.Join(dir, "bundle.json"),
		Secret: filepath.Join(dir, "secret"),
		Name:   "gate", Now: k.Clock.Now,
	}
	write(t, f.Registry, must(custody.JWK(k.Key(t, evidence.PurposeSignerCertificate)).MarshalJSON())(t))
	write(t, f.Auditor, must(custody.JWK(k.Key(t, evidence.PurposeDeploymentCertificate)).MarshalJSON())(t))
	write(t, f.Manifest, []byte(must(k.Manifest.Canonical())(t)))
	write(t, f.Secret, []byte(Secret))
	k.WriteBundle(t, f.Bundle)
	return f
}

// WriteBundle writes the kit's trust bundle, with further certificates.
func (k *Kit) WriteBundle(t testing.TB, path string, more ...string) {
	t.Helper()
	b := evidence.Bundle{Certificates: more, DeploymentCertificate: k.Deployment, Revocations: k.Revocations}
	for _, purpose := range Roles {
		b.Certificates = append(b.Certificates, k.Certificates[purpose])
	}
	write(t, path, must(json.Marshal(b))(t))
}

// write replaces a file at once.
func write(t testing.TB, path string, content []byte) {
	t.Helper()
	next := path + ".new"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}
