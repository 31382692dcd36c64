package proxy

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

	"golang.org/x/sync/singleflight"
)

const (
	leafLifetime = 12 * time.Hour
	leafCapacity = 1024 // hosts; one costs about 2 KiB
)

// leaves mints the certificates that tunnels are intercepted with and keeps those in use. Each has a key of its own from
// crypto/rand: at 20 microseconds a key there is nothing to save by sharing one. It is safe for concurrent use.
type leaves struct {
	ca  *CA
	now func() time.Time

	minting singleflight.Group // by host: a burst of connections to one host waits for one certificate

	mu     sync.Mutex // guards byHost
	byHost *lru[string, *leaf]
}

type leaf struct {
	host    string
	cert    *tls.Certificate
	renewAt time.Time
}

func newLeaves(ca *CA, now func() time.Time) *leaves {
	return &leaves{ca: ca, now: now, byHost: newLRU[string, *leaf](leafCapacity)}
}

// certificate returns a certificate for host, a normalised name or IP address, that is valid for a while yet.
func (l *leaves) certificate(host string) (*tls.Certificate, error) {
	if c := l.cached(host); c != nil {
		return c, nil
	}
	c, err, _ := l.minting.Do(host, func() (any, error) {
		if c := l.cached(host); c != nil { // another flight has just landed
			return c, nil
		}
		minted, err := l.mint(host)
		if err != nil {
			return nil, err
		}
		l.keep(minted)
		return minted.cert, nil
	})
	if err != nil {
		return nil, err
	}
	return c.(*tls.Certificate), nil
}

func (l *leaves) cached(host string) *tls.Certificate {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept, ok := l.byHost.get(host)
	if !ok || !l.now().Before(kept.renewAt) {
		return nil
	}
	return kept.cert
}

func (l *leaves) keep(c *leaf) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byHost.put(c.host, c)
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
		return nil, fmt.Errorf("proxy: the CA expired at %s", notAfter.Format(time.RFC3339))
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
	if len(host) <= 64 { // X.520's bound of a common name; only old clients read it, all others the SAN
		template.Subject = pkix.Name{CommonName: host}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		template.IPAddresses = []net.IP{addr.AsSlice()}
	} else {
		template.DNSNames = []string{host}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("proxy: leaf key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, l.ca.cert, key.Public(), l.ca.key)
	if err != nil {
		return nil, fmt.Errorf("proxy: leaf certificate: %w", err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("proxy: leaf certificate: %w", err)
	}
	return &leaf{
		host:    host,
		cert:    &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: parsed},
		renewAt: now.Add(notAfter.Sub(now) * 3 / 4),
	}, nil
}
