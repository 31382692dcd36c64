package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/refusal"
)

// Start says with what a process starts.
type Start struct {
	File    string // its configuration
	Name    string // of the process, in its log
	Places  []Place
	Log     config.Log
	Custody config.Custody
}

// Run makes the parts of a process and runs it until ctx ends. It refuses first what could not listen: see CheckPlaces.
func Run(ctx context.Context, s Start, stderr io.Writer, run func(context.Context, *Process) error) error {
	if err := CheckPlaces(s.File, s.Places...); err != nil {
		return err
	}
	log, later, err := NewLoggers(s.Log, s.Name, stderr)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	p, err := New(log, s.Custody)
	if err != nil {
		return err
	}
	defer p.Keys.Close()
	p.LogLater = later
	return run(ctx, p)
}

// Place is an address on which a process listens, with the key of its configuration that names it. One of Address and Unix is set, or
// none where the key is left out.
type Place struct{ Key, Address, Unix string }

// PlaceOf returns the place of an endpoint.
func PlaceOf(key string, e config.Endpoint) Place {
	return Place{Key: key, Address: e.TCP, Unix: e.Unix}
}

// CheckPlaces refuses a start that could not listen where the file says, before the process has done or logged anything: listen_failed. It
// opens each address and closes it again.
func CheckPlaces(file string, places ...Place) error {
	for _, p := range places {
		if err := p.check(); err != nil {
			return refusal.New("listen_failed", "%s in %s: %w", p.Key, file, err)
		}
	}
	return nil
}

func (p Place) check() error {
	if p.Unix != "" {
		if _, err := os.Stat(filepath.Dir(p.Unix)); err != nil {
			return fmt.Errorf("the folder of the socket %s cannot be used (%w): make it, or name another", p.Unix, errors.Unwrap(err))
		}
		_, err := isStale(p.Unix)
		return err
	}
	if p.Address == "" {
		return nil
	}
	l, err := net.Listen("tcp", p.Address)
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("another process listens on %s: end it, or write another address", p.Address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("this machine does not have the address %s: write one that it has", p.Address)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("this user may not listen on %s: write a port from 1024 on, or give the process CAP_NET_BIND_SERVICE", p.Address)
	}
	return err
}
