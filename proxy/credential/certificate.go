package credential

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Certificate authenticates the mediator at an API by mutual TLS, beside a credential. A nil Certificate is none. It
// prints as REDACTED, and is safe for concurrent use.
type Certificate struct {
	redacted
	rule   string
	source Source
	now    func() time.Time
	last   atomic.Pointer[Presented]
	failed atomic.Int64
}

// NewCertificate makes the client certificate of a rule.
func NewCertificate(rule string, source Source, now func() time.Time) *Certificate {
	return &Certificate{rule: rule, source: source, now: now}
}

// Presented is a client certificate for one call. The zero Presented is none.
type Presented struct {
	upstream.Client
	value Value
}

// Resolve gets the certificate for one call. Its errors are like those of [Source].
func (c *Certificate) Resolve(ctx context.Context) (p Presented, err error) {
	if c == nil {
		return Presented{}, nil
	}
	defer func() {
		if err != nil {
			c.failed.Add(1)
		}
	}()
	for range 2 { // of two files one may have been replaced when they are read
		var v Value
		if v, err = c.source.Current(ctx); err != nil {
			return Presented{}, err
		}
		if last := c.last.Load(); last != nil && last.value == v {
			return *last, c.valid(last.Client.Certificate.Leaf)
		}
		var pair tls.Certificate
		if pair, err = tls.X509KeyPair([]byte(v.Certificate), []byte(v.Secret)); err == nil {
			// Vault then issues another one for the next use.
			refused := func() { c.source.Refused(v) }
			p = Presented{upstream.Client{Name: c.rule, Certificate: &pair, Refused: refused}, v}
			c.last.Store(&p)
			return p, c.valid(pair.Leaf)
		}
	}
	return Presented{}, custody.Unavailable(nil, "the client certificate of the rule is not used: %v", err)
}

func (c *Certificate) valid(leaf *x509.Certificate) error {
	if now := c.now(); now.Before(leaf.NotBefore) || !now.Before(leaf.NotAfter) {
		return custody.Unavailable(nil, "the client certificate of the rule is valid from %s to %s only",
			leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// Hash returns the request proof's accessTokenHash of a post without a credential: the SHA-256 of the form and the
// certificate's own SHA-256.
func (p Presented) Hash() string {
	if p.Client.Certificate == nil {
		return Use{}.Hash()
	}
	id := evidence.HashBytes(p.Client.Certificate.Leaf.Raw)
	return evidence.HashBytes([]byte(public("certificate", Value{ID: id})))
}

// Stats returns the figures so far.
func (c *Certificate) Stats() Stats {
	s := Stats{Failures: c.failed.Load()}
	if last := c.last.Load(); last != nil {
		s.End, s.Read = last.Client.Certificate.Leaf.NotAfter, last.value.Read
	}
	return s
}

// maxPEM bounds a file of a client certificate, in bytes.
const maxPEM = 1 << 20

type certificateFiles struct {
	certificate, key string
	now              func() time.Time
	last             atomic.Pointer[Value]
}

// CertificateFiles is the source of a certificate and its key in PEM files, which may be one file. Each use reads them.
func CertificateFiles(certificate, key string, now func() time.Time) Source {
	return &certificateFiles{certificate: certificate, key: key, now: now}
}

// CheckCertificateFiles refuses files that are no certificate with its key, or one that is not valid now.
func CheckCertificateFiles(certificate, key string) error {
	_, err := NewCertificate("", CertificateFiles(certificate, key, time.Now), time.Now).Resolve(context.Background())
	return err
}

func (f *certificateFiles) Current(context.Context) (Value, error) {
	v := Value{Read: f.now()}
	for _, part := range []struct {
		path string
		to   *string
	}{{f.certificate, &v.Certificate}, {f.key, &v.Secret}} {
		raw, err := files.ReadUpTo(part.path, maxPEM)
		if err != nil {
			return Value{}, custody.Unavailable(err, "the file %s of the client certificate cannot be read", part.path)
		}
		*part.to = string(raw)
	}
	if last := f.last.Load(); last != nil && last.Certificate == v.Certificate && last.Secret == v.Secret {
		return *last, nil
	}
	f.last.Store(&v)
	return v, nil
}

func (*certificateFiles) Refused(Value) {}

// VaultCertificate is the source of a certificate that Vault's PKI engine issues to the name, at a path such as
// pki/issue/ROLE. It is renewed in the second half of its life. Its key stays in memory.
func VaultCertificate(from *vault.Secrets, path, name string, now func() time.Time) Source {
	return &renewed{now: now, part: 2, fetch: func(ctx context.Context) (Value, error) {
		got, err := from.Issue(ctx, path, name)
		return Value{Certificate: got.Certificate, Secret: got.Key, End: got.End}, err
	}}
}
