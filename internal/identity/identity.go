// Package identity has the TLS certificate of a process, and verifies those of its peers. A certificate names its
// holder by one SPIFFE id.
//
//	id.go        SPIFFE ids, and patterns of them
//	identity.go  a certificate, its key and the authorities, which follow their files
//	tls.go       both sides of a connection
package identity

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/files"
)

// Files are PEM files.
type Files struct {
	Certificate string // the certificate, then those that lead to an authority
	Key         string // may be the same file
	Authorities string // of the peers' certificates
}

const maxFile = 1 << 20

// Identity is the certificate of a process. It is safe for concurrent use.
type Identity struct {
	follower
	now atomic.Pointer[state]
}

type state struct {
	id          ID
	pair        tls.Certificate
	authorities *x509.CertPool
	pem         string // of the authorities
	token       string // of a client without a certificate; otherwise empty
}

// Load reads the files. It refuses a certificate that is not for the key, or without exactly one SPIFFE id.
func Load(f Files) (*Identity, error) {
	i := new(Identity)
	i.follower = follower{paths: []string{f.Certificate, f.Key, f.Authorities}, take: i.take}
	_, err := i.read()
	return i, err
}

// LoadBearer makes the identity of a client that has a token in place of a certificate. It is only for
// [Identity.Transport].
func LoadBearer(tokenFile, authorities string) (*Identity, error) {
	token, err := files.ReadSecret(tokenFile, 1)
	if err != nil {
		return nil, err
	}
	raw, err := files.ReadUpTo(authorities, maxFile)
	if err != nil {
		return nil, err
	}
	i, err := NewBearer(token, string(raw))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", authorities, err)
	}
	return i, nil
}

// NewBearer is [LoadBearer] for a token, and authorities in PEM.
func NewBearer(token, authorities string) (*Identity, error) {
	all, err := pool(authorities)
	if err != nil {
		return nil, fmt.Errorf("the authorities: %w", err)
	}
	i := new(Identity)
	i.now.Store(&state{authorities: all, pem: authorities, token: token})
	return i, nil
}

// NewKey makes a private key. It also returns the key in PEM, for [New] and [Identity.Renew].
func NewKey() (private ed25519.PrivateKey, inPEM string, err error) {
	if _, private, err = ed25519.GenerateKey(rand.Reader); err != nil {
		return nil, "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	return private, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), err
}

// New makes an identity of PEM texts, for a key that is in no file. [Identity.Renew] replaces them.
func New(certificate, key, authorities string) (*Identity, error) {
	i := new(Identity)
	i.paths = []string{"memory", "memory", "memory"}
	return i, i.Renew(certificate, key, authorities)
}

// Renew replaces certificate, key and authorities. The certificate must name the same process as before.
func (i *Identity) Renew(certificate, key, authorities string) error {
	return i.take([]string{certificate, key, authorities})
}

// ID returns the SPIFFE id of the process. It never changes.
func (i *Identity) ID() ID { return i.now.Load().id }

// Authorities returns the authorities of the peers' certificates, in PEM.
func (i *Identity) Authorities() string { return i.now.Load().pem }

// Until returns when the certificate ends.
func (i *Identity) Until() time.Time { return i.now.Load().pair.Leaf.NotAfter }

// Check returns an error while peers refuse the certificate because of its times.
func (i *Identity) Check() error {
	leaf, now := i.now.Load().pair.Leaf, time.Now()
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return fmt.Errorf("the TLS certificate of this process, in %s, is valid from %s to %s", i.paths[0],
			leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

func (i *Identity) take(raw []string) error {
	pair, err := tls.X509KeyPair([]byte(raw[0]), []byte(raw[1]))
	if err != nil {
		return fmt.Errorf("the certificate in %s and the key in %s: %w", i.paths[0], i.paths[1], err)
	}
	id, err := of(pair.Leaf)
	if err != nil {
		return fmt.Errorf("the certificate in %s: %w", i.paths[0], err)
	}
	authorities, err := pool(raw[2])
	if err != nil {
		return fmt.Errorf("the authorities in %s: %w", i.paths[2], err)
	}
	if before := i.now.Load(); before != nil && before.id != id {
		return fmt.Errorf("the certificate in %s names %s, but this process is %s: restart it to change its name",
			i.paths[0], id, before.id)
	}
	i.now.Store(&state{id: id, pair: pair, authorities: authorities, pem: raw[2]})
	return nil
}

// pool refuses a file with anything but certificates, which a pool would skip without a word.
func pool(raw string) (*x509.CertPool, error) {
	all, rest := x509.NewCertPool(), []byte(raw)
	for found := 0; ; found++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if found == 0 {
				return nil, errors.New("there is no certificate in PEM")
			}
			return all, nil
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("block %d is a %.40q, and not a certificate", found+1, block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", found+1, err)
		}
		all.AddCert(c)
	}
}

// Server is the certificate of a port that everyone can reach. It is safe for concurrent use.
type Server struct {
	follower
	pair atomic.Pointer[tls.Certificate]
}

// LoadServer reads a certificate and its key.
func LoadServer(certificate, key string) (*Server, error) {
	s := new(Server)
	s.follower = follower{paths: []string{certificate, key}, take: func(raw []string) error {
		pair, err := tls.X509KeyPair([]byte(raw[0]), []byte(raw[1]))
		if err == nil {
			s.pair.Store(&pair)
		}
		return err
	}}
	_, err := s.read()
	return s, err
}

// Config returns the TLS configuration of a listener.
func (s *Server) Config() *tls.Config {
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair.Load(), nil },
		MinVersion:     tls.VersionTLS12,
	}
}

// follower reads files that change together. Only Follow, after the first read, uses it.
type follower struct {
	paths []string
	raw   []string // the contents that were read last, also those that take refused
	take  func(raw []string) error
}

// read reports whether it took changed files over.
func (f *follower) read() (taken bool, err error) {
	var raw []string
	same := true
	for i, path := range f.paths {
		content, err := files.ReadUpTo(path, maxFile)
		if err != nil {
			return false, err
		}
		raw = append(raw, string(content))
		same = same && f.raw != nil && f.raw[i] == raw[i]
	}
	if same {
		return false, nil
	}
	f.raw = raw
	return true, f.take(raw)
}

// Follow takes over changed files until ctx ends. While they do not belong together, as during a renewal, the previous
// ones stay.
func (f *follower) Follow(ctx context.Context, log *zap.Logger) {
	files.Follow(ctx, f.paths, func() error {
		taken, err := f.read()
		if taken && err == nil {
			log.Info("TLS certificate taken over", zap.String("path", f.paths[0]))
		}
		return err
	}, func(err error) {
		log.Error("the previous TLS certificate stays", zap.String("path", f.paths[0]), zap.Error(err))
	})
}
