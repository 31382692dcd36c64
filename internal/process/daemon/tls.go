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

type serverCertificate struct {
	paths   [2]string // of the certificate, which may come with others that lead to a CA, and of its key
	raw     [2]string // contents that were read last
	current atomic.Pointer[tls.Certificate]
	log     *zap.Logger
}

// ListenTLS opens a TCP address that speaks only TLS. Until ctx ends, group reads the files of the certificate and its
// key again when they change, so a renewal needs no restart. While the files do not belong together, as during a
// renewal, the previous certificate stays.
func ListenTLS(ctx context.Context, group *errgroup.Group, address, certificate, key string,
	log *zap.Logger) (net.Listener, error) {
	s := &serverCertificate{paths: [2]string{certificate, key}, log: log}
	if err := s.follow(); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	group.Go(func() error {
		files.Follow(ctx, certificate, trustPoll, s.follow, func(err error) {
			log.Error("the previous TLS certificate stays", zap.String("path", certificate), zap.Error(err))
		})
		return nil
	})
	return tls.NewListener(l, &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.current.Load(), nil },
		MinVersion:     tls.VersionTLS12,
	}), nil
}

func (s *serverCertificate) follow() error {
	var raw [2]string
	for i, path := range s.paths {
		content, err := files.Read(path)
		if err != nil {
			return err
		}
		raw[i] = string(content)
	}
	if raw == s.raw {
		return nil
	}
	s.raw = raw
	c, err := tls.X509KeyPair([]byte(raw[0]), []byte(raw[1]))
	if err != nil {
		return err
	}
	if s.current.Swap(&c) != nil {
		s.log.Info("TLS certificate taken over", zap.String("path", s.paths[0]))
	}
	return nil
}
