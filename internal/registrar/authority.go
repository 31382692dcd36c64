package registrar

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/internal/files"
)

// Authority is the CA for the TLS certificates of pods.
type Authority struct {
	Key   custody.Key // signs; its custody may be Vault
	Store Store
	// TrustDomain is the host of each SPIFFE id. The CA's certificate allows no other.
	TrustDomain string
	Now         func() time.Time

	now atomic.Pointer[authority] // nil until Open
}

type authority struct {
	own *x509.Certificate
	all []byte // PEM of this one and of earlier ones that have not ended
}

const (
	caFile     = "ca.pem"
	caLifetime = 365 * 24 * time.Hour
	backdated  = time.Minute // for clocks that are behind
	maxCAs     = 16          // certificates that are kept at once
)

// Open reads the CA's certificates. It adds one if the current one belongs to another key, or half of its lifetime is
// over.
func (a *Authority) Open(ctx context.Context) error {
	var now authority
	err := a.Store.Edit(ctx, func(dir string) error {
		path := filepath.Join(dir, caFile)
		raw, err := files.Read(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		version, err := a.Key.Current(ctx)
		if err != nil {
			return err
		}
		all, own := a.valid(raw, ed25519.PublicKey(version.Public()))
		if own == nil {
			if own, err = a.selfSigned(ctx, version); err != nil {
				return err
			}
			all = append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own}), all...)
			if err := files.Replace(path, all, 0o644); err != nil {
				return err
			}
		}
		of, err := x509.ParseCertificate(own)
		now = authority{of, all}
		return err
	})
	if err == nil { // after a failed edit, no other replica has the new certificate
		a.now.Store(&now)
	}
	return err
}

// valid returns the certificates that have not ended, and the one that can sign on with this key, if there is one.
func (a *Authority) valid(raw []byte, public ed25519.PublicKey) (all, own []byte) {
	for n := 0; n < maxCAs; n++ {
		var block *pem.Block
		if block, raw = pem.Decode(raw); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !a.Now().Before(c.NotAfter) {
			continue
		}
		all = append(all, pem.EncodeToMemory(block)...)
		if key, ok := c.PublicKey.(ed25519.PublicKey); ok && key.Equal(public) && own == nil &&
			a.Now().Before(c.NotAfter.Add(-caLifetime/2)) {
			own = block.Bytes
		}
	}
	return all, own
}

func (a *Authority) selfSigned(ctx context.Context, v custody.Version) ([]byte, error) {
	now := a.Now()
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "mediator " + a.TrustDomain},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(caLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedURIDomains: []string{a.TrustDomain}, PermittedDNSDomainsCritical: true,
	}
	s := versionSigner{ctx, v}
	return x509.CreateCertificate(rand.Reader, t, t, s.Public(), s)
}

// PEM returns, after Open, the certificates by which others verify those of pods.
func (a *Authority) PEM() []byte { return a.now.Load().all }

// Leaf is what a pod's certificate says.
type Leaf struct {
	Path     string // of its SPIFFE id
	DNSNames []string
	Public   crypto.PublicKey
	Lifetime time.Duration
}

// Issue makes, after Open, a certificate for TLS in both directions. It returns the certificate, and the same in PEM.
func (a *Authority) Issue(ctx context.Context, l Leaf) (*x509.Certificate, string, error) {
	ca := a.now.Load().own
	if err := checkPublic(l.Public); err != nil {
		return nil, "", err
	}
	version, err := a.Key.Current(ctx)
	if err != nil {
		return nil, "", err
	}
	s := versionSigner{ctx, version}
	// rotated: the next Open makes a certificate for the new key
	if !s.Public().(ed25519.PublicKey).Equal(ca.PublicKey) {
		return nil, "", custody.Unavailable(nil, "the CA's key was rotated, and has no certificate yet")
	}
	now := a.Now().Truncate(time.Second)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial(), NotBefore: now.Add(-backdated), NotAfter: now.Add(l.Lifetime - backdated),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		URIs:        []*url.URL{{Scheme: "spiffe", Host: a.TrustDomain, Path: "/" + l.Path}}, DNSNames: l.DNSNames,
	}, ca, l.Public, s)
	if err != nil {
		return nil, "", err
	}
	leaf, err := x509.ParseCertificate(der)
	return leaf, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), err
}

// checkPublic refuses keys of other types: kubelets make Ed25519 or ECDSA keys for the pods of the chart.
func checkPublic(public crypto.PublicKey) error {
	switch public.(type) {
	case ed25519.PublicKey, *ecdsa.PublicKey:
		return nil
	}
	return refuse("key_type", "registrar_refused",
		"only Ed25519 and ECDSA keys can get a certificate; this key is a %T", public)
}

func serial() *big.Int {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails; see evidence.NewID
	raw[0] = raw[0]&0x7f | 0x40
	return new(big.Int).SetBytes(raw[:])
}

// versionSigner signs certificates with a key in custody.
type versionSigner struct {
	ctx context.Context //nolint:containedctx // crypto.Signer takes none
	v   custody.Version
}

func (s versionSigner) Public() crypto.PublicKey { return ed25519.PublicKey(bytes.Clone(s.v.Public())) }

// Sign signs the message itself, as Ed25519 does.
func (s versionSigner) Sign(_ io.Reader, message []byte, o crypto.SignerOpts) ([]byte, error) {
	if o.HashFunc() != 0 {
		return nil, fmt.Errorf("an Ed25519 key signs no %s", o.HashFunc())
	}
	return s.v.Sign(s.ctx, message)
}
