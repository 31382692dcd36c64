package intercept

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/proxy/upstream"
)

const (
	defaultCALifetime = 30 * 24 * time.Hour
	// backdate forgives a client whose clock is behind.
	backdate = 5 * time.Minute

	caCertFile = "ca.pem"
	caKeyFile  = "ca-key.pem"
)

// CA signs the certificates of intercepted tunnels. Its key is ECDSA P-256 and stays in this process unless CreateCA
// wrote it to a directory. It prints as "CA" and its subject, never as its key.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// CAOptions describe a new CA.
type CAOptions struct {
	Lifetime    time.Duration    // 30 days if 0; never renewed, because every agent would have to trust the new CA
	Constraints *NameConstraints // limit the hosts that the CA can vouch for, if set
	Now         func() time.Time // required
}

// NewCA makes a CA for the life of this process.
func NewCA(o CAOptions) (*CA, error) {
	if o.Now == nil || o.Lifetime < 0 {
		return nil, errors.New("intercept: CAOptions lacks Now, or its lifetime is negative")
	}
	o.Lifetime = cmp.Or(o.Lifetime, defaultCALifetime)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("intercept: CA key: %w", err)
	}
	serial, now := newSerial(), o.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		// Trust stores confuse CAs of one name, so each has its own.
		Subject:               pkix.Name{CommonName: "Mediator egress CA " + hex.EncodeToString(serial.Bytes()[:4])},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(o.Lifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true, // signs leaves only
	}
	o.Constraints.apply(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("intercept: CA certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("intercept: CA certificate: %w", err)
	}
	return &CA{cert: cert, key: key}, nil
}

// CreateCA makes a CA and writes ca.pem and ca-key.pem to dir, which agents must not read: give them the certificate
// elsewhere. It refuses to overwrite a CA (fs.ErrExist).
func CreateCA(dir string, o CAOptions) (*CA, error) {
	ca, err := NewCA(o)
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(ca.key)
	if err != nil {
		return nil, fmt.Errorf("intercept: CA key: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("intercept: CA directory: %w", err)
	}
	err = files.WriteNew(filepath.Join(dir, caKeyFile), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		0o600)
	if err == nil {
		err = files.WriteNew(filepath.Join(dir, caCertFile), ca.CertificatePEM(), 0o644)
	}
	return ca, err
}

// ErrCANotValid refuses a CA outside its certificate's time.
var ErrCANotValid = errors.New("intercept: the CA's certificate is not valid now")

// LoadCA reads what CreateCA wrote. It refuses a key that others may read, another key than the certificate's, a
// certificate without CA rights, and one that is not valid at now (ErrCANotValid).
func LoadCA(dir string, now time.Time) (*CA, error) {
	keyPath := filepath.Join(dir, caKeyFile)
	info, err := os.Stat(keyPath)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("the key %s has mode %#o: others may read it; make a new CA and keep it at 0600", keyPath,
			info.Mode().Perm())
	}
	keyPEM, unread := files.Read(keyPath)
	certPEM, missing := files.Read(filepath.Join(dir, caCertFile))
	if err = cmp.Or(err, unread, missing); err != nil {
		return nil, fmt.Errorf("intercept: CA: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM) // its errors quote no key
	if err != nil {
		return nil, fmt.Errorf("intercept: the CA in %s: %w", dir, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	cert := pair.Leaf
	switch {
	case !ok || key.Curve != elliptic.P256():
		return nil, errors.New("intercept: CA key is not ECDSA P-256")
	case len(pair.Certificate) != 1:
		return nil, errors.New("intercept: the CA's file has more than one certificate")
	case !cert.IsCA || cert.KeyUsage&x509.KeyUsageCertSign == 0:
		return nil, errors.New("intercept: the CA's certificate may not sign")
	case now.Before(cert.NotBefore) || !now.Before(cert.NotAfter):
		return nil, fmt.Errorf("%w: it is valid from %s to %s only", ErrCANotValid, cert.NotBefore.Format(time.RFC3339),
			cert.NotAfter.Format(time.RFC3339))
	}
	return &CA{cert: cert, key: key}, nil
}

// CertificatePEM returns the certificate for clients to trust.
func (ca *CA) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
}

// Expires returns the end of the certificate. From then on no tunnel can be intercepted, so none is opened.
func (ca *CA) Expires() time.Time { return ca.cert.NotAfter }

// Constrained reports whether the CA is limited to certain hosts.
func (ca *CA) Constrained() bool {
	return len(ca.cert.PermittedDNSDomains)+len(ca.cert.PermittedIPRanges)+len(ca.cert.ExcludedIPRanges) > 0
}

// Covers reports whether the CA can vouch for a host of [Constrain].
func (ca *CA) Covers(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		within := func(n *net.IPNet) bool { return n.Contains(addr.Unmap().AsSlice()) }
		return !slices.ContainsFunc(ca.cert.ExcludedIPRanges, within) &&
			(len(ca.cert.PermittedIPRanges) == 0 || slices.ContainsFunc(ca.cert.PermittedIPRanges, within))
	}
	name := upstream.NormalHost(strings.TrimPrefix(host, "*."))
	return len(ca.cert.PermittedDNSDomains) == 0 ||
		slices.ContainsFunc(ca.cert.PermittedDNSDomains, func(domain string) bool {
			return name == domain || strings.HasSuffix(name, "."+domain)
		})
}

func (ca *CA) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "CA(%s)", ca.cert.Subject.CommonName)
}

// NameConstraints are the hosts that a CA can vouch for (RFC 5280 section 4.2.1.10). Clients refuse it for any other.
type NameConstraints struct {
	domains []string
	ranges  []netip.Prefix
}

// Constrain limits a CA to hosts: IP addresses, and domain names with their subdomains ("*." may precede a name).
func Constrain(hosts []string) (*NameConstraints, error) {
	c := &NameConstraints{}
	for _, h := range hosts {
		name := upstream.NormalHost(strings.TrimPrefix(h, "*."))
		if addr, err := netip.ParseAddr(h); err == nil && addr.Zone() == "" {
			addr = addr.Unmap()
			c.ranges = append(c.ranges, netip.PrefixFrom(addr, addr.BitLen()))
		} else if name != "" {
			c.domains = append(c.domains, name)
		} else {
			return nil, fmt.Errorf("intercept: %q is not a host, so a CA cannot be constrained to it", h)
		}
	}
	// Rules repeat hosts; the certificate must not.
	slices.Sort(c.domains)
	c.domains = slices.Compact(c.domains)
	slices.SortFunc(c.ranges, netip.Prefix.Compare)
	c.ranges = slices.Compact(c.ranges)
	if len(c.domains)+len(c.ranges) == 0 {
		return nil, errors.New("intercept: a CA constrained to no host could sign nothing")
	}
	return c, nil
}

// apply always writes both kinds of names: a kind without a constraint would be unlimited.
func (c *NameConstraints) apply(template *x509.Certificate) {
	if c == nil {
		return
	}
	template.PermittedDNSDomainsCritical = true
	if template.PermittedDNSDomains = c.domains; len(c.domains) == 0 {
		template.PermittedDNSDomains = []string{"invalid"} // RFC 2606 reserves "invalid"
	}
	for _, p := range c.ranges {
		template.PermittedIPRanges = append(template.PermittedIPRanges, ipNet(p))
	}
	if len(c.ranges) == 0 {
		template.ExcludedIPRanges = []*net.IPNet{ipNet(netip.MustParsePrefix("0.0.0.0/0")),
			ipNet(netip.MustParsePrefix("::/0"))}
	}
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// newSerial returns a random positive number of 127 bits (RFC 5280 section 4.1.2.2).
func newSerial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:])  // never fails
	b[0] = b[0]&0x7f | 0x40 // positive, and of constant length
	return new(big.Int).SetBytes(b[:])
}
