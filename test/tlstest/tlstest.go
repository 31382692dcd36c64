// Package tlstest makes the TLS certificates of processes for tests.
package tlstest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/test/check"
)

// Authority certifies processes.
type Authority struct {
	certificate *x509.Certificate
	key         ed25519.PrivateKey
}

// New makes an authority.
func New(t testing.TB) *Authority {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check.Must(t, err)
	certificate, err := x509.ParseCertificate(der)
	check.Must(t, err)
	return &Authority{certificate, key}
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte { return block("CERTIFICATE", a.certificate.Raw) }

// Certify returns a key and a certificate for 127.0.0.1 with these URIs, valid for an hour unless edit changes that.
// Both are PEM; nil edits nothing.
func (a *Authority) Certify(t testing.TB, edit func(*x509.Certificate), ids ...string) (certificate, key []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	check.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	for _, id := range ids {
		uri, err := url.Parse(id)
		check.Must(t, err)
		template.URIs = append(template.URIs, uri)
	}
	if edit != nil {
		edit(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
	check.Must(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	check.Must(t, err)
	return block("CERTIFICATE", der), block("PRIVATE KEY", raw)
}

// Write writes what Certify returns into one file of the folder, as a kubelet does, and the authority into another.
func (a *Authority) Write(t testing.TB, dir string, edit func(*x509.Certificate), ids ...string) identity.Files {
	t.Helper()
	certificate, key := a.Certify(t, edit, ids...)
	f := identity.Files{Certificate: filepath.Join(dir, "bundle.pem"), Authorities: filepath.Join(dir, "authorities.pem")}
	f.Key = f.Certificate
	Replace(t, f.Certificate, append(key, certificate...))
	Replace(t, f.Authorities, a.PEM())
	return f
}

// Replace replaces a file at once.
func Replace(t testing.TB, path string, content []byte) {
	t.Helper()
	check.Must(t, os.MkdirAll(filepath.Dir(path), 0o750))
	check.Must(t, os.WriteFile(path+".new", content, 0o600))
	check.Must(t, os.Rename(path+".new", path))
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
