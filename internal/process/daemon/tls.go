package daemon

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/internal/files"
)

// ServerCertificate is the TLS certificate of a listener, from two PEM files. It is read again when they change, so a
// renewal needs no restart.
type ServerCertificate struct {
	certificate, key string // paths
	log              *zap.Logger
	raw              [2]string // contents that were read last; of Watch
	inForce          atomic.Pointer[tls.Certificate]
}

// OpenServerCertificate reads a certificate, which may come with others that lead to a CA, and its key.
func OpenServerCertificate(certificate, key string, log *zap.Logger) (*ServerCertificate, error) {
	s := &ServerCertificate{certificate: certificate, key: key, log: log}
	var err error
	if s.raw, err = s.read(); err != nil {
		return nil, err
	}
	return s, s.put()
}

// read returns the contents of both files.
func (s *ServerCertificate) read() (raw [2]string, err error) {
	for i, path := range [...]string{s.certificate, s.key} {
		content, err := files.Read(path)
		if err != nil {
			return raw, err
		}
		raw[i] = string(content)
	}
	return raw, nil
}

// put makes the contents that were read last the current certificate.
func (s *ServerCertificate) put() error {
	c, err := tls.X509KeyPair([]byte(s.raw[0]), []byte(s.raw[1]))
	if err == nil {
		s.inForce.Store(&c)
	}
	return err
}

// Watch reads the files whenever they may have changed, until ctx ends. While one of them cannot be read, or they do
// not belong together, as during a renewal, the previous certificate stays. Watch logs this once.
func (s *ServerCertificate) Watch(ctx context.Context) {
	said := ""
	for range files.Watch(ctx, s.certificate, trustPoll) {
		switch err := s.follow(); {
		case err == nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			s.log.Error("the previous TLS certificate stays", zap.String("path", s.certificate), zap.Error(err))
		}
	}
}

// follow takes over files that have changed.
func (s *ServerCertificate) follow() error {
	raw, err := s.read()
	if err != nil || raw == s.raw {
		return err
	}
	s.raw = raw
	if err := s.put(); err != nil {
		return err
	}
	s.log.Info("TLS certificate taken over", zap.String("path", s.certificate))
	return nil
}

// ListenTLS opens a TCP address on which only TLS is spoken. group follows the certificate's files until ctx ends.
func ListenTLS(ctx context.Context, group *errgroup.Group, address, certificate, key string,
	log *zap.Logger) (net.Listener, error) {
	c, err := OpenServerCertificate(certificate, key, log)
	if err != nil {
		return nil, err
	}
	l, err := c.Listen(address)
	if err != nil {
		return nil, err
	}
	group.Go(func() error { c.Watch(ctx); return nil })
	return l, nil
}

// Listen opens a TCP address that speaks only TLS, with the current certificate.
func (s *ServerCertificate) Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(l, &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.inForce.Load(), nil
		}, MinVersion: tls.VersionTLS12,
	}), nil
}
