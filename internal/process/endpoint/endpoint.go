// Package endpoint is the network side of a process: where other processes, operators and everyone else reach it, and
// how it reaches other processes.
//
//	endpoint.go  opens addresses and sockets
//	place.go     refuses a start that could not open them
//	peer.go      who is at the other end of a unix socket
//	serve.go     answers requests, and ends
//	limits.go    which connections stay if there are too many
//	client.go    clients of other processes
package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/identity"
)

// Listen opens an endpoint with one address. A unix socket has mode 0600, or 0666 if the configuration admits other
// users; the listener checks the user of each connection. A TCP endpoint speaks TLS as id, with clients that have a
// certificate; its connections are bounded, because strangers can make them.
func Listen(e config.Endpoint, id *identity.Identity, log *zap.Logger) (net.Listener, error) {
	if e.Unix == "" {
		if id == nil {
			return nil, errors.New("a TCP endpoint needs tls")
		}
		return listenTLS(e.TCP, id.Config(), log)
	}
	stale, err := isStale(e.Unix)
	if stale && err == nil {
		err = os.Remove(e.Unix)
	}
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", e.Unix)
	if err != nil {
		return nil, err
	}
	mode := os.FileMode(0o600)
	if len(e.UIDs) > 0 {
		mode = 0o666
	}
	if err := os.Chmod(e.Unix, mode); err != nil {
		l.Close()
		return nil, err
	}
	return &peerListener{Listener: l, allowed: append([]uint32{0, uint32(os.Geteuid())}, e.UIDs...),
		log: flood.Logger(log)}, nil
}

// ListenOpen is [Listen] at a TCP address that also admits callers without a certificate.
func ListenOpen(e config.Endpoint, id *identity.Identity, log *zap.Logger) (net.Listener, error) {
	return listenTLS(e.TCP, id.OpenConfig(), log)
}

func listenTLS(address string, c *tls.Config, log *zap.Logger) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(newBoundedListener(l, endpointLimits, log), c), nil
}

// isStale reports whether a process has left a socket behind at path. It fails for anything else there.
func isStale(path string) (bool, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case info.Mode().Type() != os.ModeSocket:
		return false, fmt.Errorf("%s exists but is not a socket: move it away, or name another socket", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		c.Close()
	case errors.Is(err, unix.ECONNREFUSED):
		return true, nil
	case !errors.Is(err, unix.EAGAIN): // the queue of waiting connections is full
		return false, fmt.Errorf("%s exists but cannot be reached (%w): remove it, or name another socket", path, err)
	}
	return false, fmt.Errorf("another process listens on %s: end it, or name another socket", path)
}

// ListenTLS opens a TCP address that speaks only TLS, for everyone. Until ctx ends, group follows the files of the
// certificate and its key, so a renewal needs no restart.
func ListenTLS(ctx context.Context, group *errgroup.Group, address, certificate, key string,
	log *zap.Logger) (net.Listener, error) {
	s, err := identity.LoadServer(certificate, key)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	group.Go(func() error { s.Follow(ctx, log); return nil })
	return tls.NewListener(l, s.Config()), nil
}
