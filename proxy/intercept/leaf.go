package intercept

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/lru"
)

const (
	leafLifetime = 12 * time.Hour
	leafCapacity = 1024 // hosts, about 2 KiB each
)

// leaves mints and caches the certificates of intercepted tunnels: minting costs about a tenth of a fresh connection.
// Each has its own random key. It is safe for concurrent use.
type leaves struct {
	ca  *CA
	now func() time.Time

	mu     sync.Mutex // guards byHost; also held while minting
	byHost *lru.Cache[string, *leaf]
}

type leaf struct {
	cert    *tls.Certificate
	renewAt time.Time
}

func newLeaves(ca *CA, now func() time.Time) *leaves {
	return &leaves{ca: ca, now: now, byHost: lru.New[string, *leaf](leafCapacity)}
}

// certificate returns a certificate for host, a normalised name or IP address, that stays valid for a while.
func (l *leaves) certificate(host string) (*tls.Certificate, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept, ok := l.byHost.Get(host); ok && l.now().Before(kept.renewAt) {
		return kept.cert, nil
	}
	minted, err := l.mint(host)
	if err != nil {
		return nil, err
	}
	l.byHost.Put(host, minted)
	return minted.cert, nil
}

// mint makes a certificate that does not outlive the CA. It is renewed after three quarters of its life.
func (l *leaves) mint(host string) (*leaf, error) {
	now := l.now()
	notBefore, notAfter := now.Add(-backdate), now.Add(leafLifetime)
	if notBefore.Before(l.ca.cert.NotBefore) {
		notBefore = l.ca.cert.NotBefore
	}
	if notAfter.After(l.ca.cert.NotAfter) {
		notAfter = l.ca.cert.NotAfter
	}
	if !now.Before(notAfter) {
		return nil, fmt.Errorf("intercept: the CA expired at %s", notAfter.Format(time.RFC3339))
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(),
		NotBefore:    notBefore,
		NotAfter:     notAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		// No common name: OpenSSL applies the CA's DNS constraints to one that has no DNS names beside it.
		template.IPAddresses = []net.IP{addr.AsSlice()}
	} else {
		template.DNSNames = []string{host}
		if len(host) <= 64 { // X.520's bound; only old clients read it, others the SAN
			template.Subject = pkix.Name{CommonName: host}
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("intercept: leaf key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, l.ca.cert, key.Public(), l.ca.key)
	if err != nil {
		return nil, fmt.Errorf("intercept: leaf certificate: %w", err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("intercept: leaf certificate: %w", err)
	}
	return &leaf{
		cert:    &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: parsed},
		renewAt: now.Add(notAfter.Sub(now) * 3 / 4),
	}, nil
}
