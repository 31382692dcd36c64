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
	leafCapacity = 1024 // hosts; one costs about 2 KiB
)

// leaves mints the certificates that tunnels are intercepted with and keeps those in use: to mint one costs about a
// tenth of what a fresh connection does. Each has a key of its own from crypto/rand. It is safe for concurrent use.
type leaves struct {
	ca  *CA
	now func() time.Time

	mu     sync.Mutex // guards byHost, and is held while a certificate is minted
	byHost *lru.Cache[string, *leaf]
}

type leaf struct {
	cert    *tls.Certificate
	renewAt time.Time
}

func newLeaves(ca *CA, now func() time.Time) *leaves {
	return &leaves{ca: ca, now: now, byHost: lru.New[string, *leaf](leafCapacity)}
}

// certificate returns a certificate for host, a normalised name or IP address, that is valid for a while yet.
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

// mint makes a certificate that lives no longer than the CA and is due for renewal after three quarters of its life.
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
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		NotBefore:    notBefore,
		NotAfter:     notAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		// No common name: OpenSSL holds one without DNS names beside it against the CA's constraints on those.
		template.IPAddresses = []net.IP{addr.AsSlice()}
	} else {
		template.DNSNames = []string{host}
		if len(host) <= 64 { // X.520's bound of a common name; only old clients read it, all others the SAN
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
