package console

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

// Login is the answer to a request for a URL that logs in one browser.
type Login struct {
	URL string `json:"url"`
}

// LoginPath is where a console's socket gives out a URL, to those who may use the socket.
const LoginPath = "/v1/login"

// browserLimits bound the connections of browsers, so that slow strangers do not keep operators out.
var browserLimits = endpoint.Limits{Connections: 512, PerAddress: 128, Header: 10 * time.Second, Request: answerTime}

// Run serves a console until ctx ends: at a loopback address, or at any one if its team has a TLS certificate. Its unix
// socket, for its own user and root, gives out URLs that log in. It calls ready with the first one. reads are the
// files, beside those of o.Trust, that o.Judge reads. The process confines itself.
func (s *Server) Run(ctx context.Context, listen, socket string, reads []string, ready func(login string)) error {
	group, ctx := errgroup.WithContext(ctx)
	browsers, err := s.listen(ctx, group, listen)
	if err != nil {
		return err
	}
	for _, l := range browsers {
		defer l.Close()
	}
	operators, err := endpoint.Listen(config.Endpoint{Unix: socket}, nil, s.Log)
	if err != nil {
		return err
	}
	defer operators.Close()
	limits, err := s.confined(socket, reads)
	if err != nil {
		return err
	}
	if _, err := confine.Apply(limits); err != nil {
		return refusal.New("not_confined", "the console does not start: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+LoginPath, func(w http.ResponseWriter, _ *http.Request) {
		wire.Write(w, Login{s.LoginURL()}, nil)
	})
	ready(s.LoginURL())
	group.Go(func() error { return endpoint.Serve(ctx, operators, mux, endpoint.Limits{}, time.Second, s.Log) })
	for _, l := range browsers {
		group.Go(func() error { return endpoint.Serve(ctx, l, s, browserLimits, time.Second, s.Log) })
	}
	return group.Wait()
}

func (s *Server) listen(ctx context.Context, group *errgroup.Group, at string) ([]net.Listener, error) {
	if s.Team == nil || s.Team.TLSCertificate == "" {
		return listenLoopback(at)
	}
	l, err := endpoint.ListenTLS(ctx, group, at, s.Team.TLSCertificate, s.Team.TLSKey, s.Log)
	if err != nil {
		return nil, refusal.New("listen_failed", "%v", err)
	}
	return []net.Listener{l}, nil
}

// listenLoopback listens at a loopback address, and at its port of both addresses that a browser finds for a name below
// localhost: another program at one of them would get codes and cookies.
func listenLoopback(listen string) (all []net.Listener, err error) {
	at, err := netip.ParseAddrPort(listen)
	if err != nil || !at.Addr().IsLoopback() {
		return nil, refusal.New("listen_failed",
			"without a TLS certificate the console listens on loopback, which %q is not", listen)
	}
	names := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback(), at.Addr()}
	for i, addr := range names {
		if slices.Contains(names[:i], addr) {
			continue
		}
		l, err := net.Listen("tcp", netip.AddrPortFrom(addr, at.Port()).String())
		if addr != at.Addr() && (errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT)) {
			continue // this machine has no such address
		}
		if err != nil {
			for _, l := range all {
				_ = l.Close()
			}
			return nil, refusal.New("listen_failed",
				"%v: stop the process that listens there, or set console in the sidecar's configuration", err)
		}
		all = append(all, l)
	}
	return all, nil
}

// confined returns what the process keeps: the files that verify and connect, and connections to the processes.
func (s *Server) confined(socket string, reads []string) (confine.Limits, error) {
	plan := daemon.Plan{Endpoint: config.Endpoint{Unix: socket}}
	reads = append([]string{s.Trust.Registry, s.Trust.Auditor, s.Trust.Bundle}, reads...)
	for _, at := range append([]string{s.Admin, s.Node}, s.Processes...) {
		peer, file, _ := config.SplitEndpoint(at)
		if peer.TCP == "" {
			continue
		}
		c, err := config.Load[config.Client](file)
		if err != nil {
			return confine.Limits{}, err
		}
		reads = append(reads, file, c.Certificate, c.Key, c.TokenFile, c.Authorities)
		plan.Confine.AnyPort = true
	}
	if t := s.Team; t != nil {
		reads = append(reads, t.TLSCertificate, t.TLSKey, t.SecretFile)
		plan.Confine.AnyPort = true
	}
	var named []observe.Path
	for _, path := range reads {
		// A default that is missing in the root folder is left out: its folder would make every file readable.
		if _, err := os.Stat(path); path != "" && (err == nil || !slices.Contains(files.Folders(path), "/")) {
			named = append(named, observe.Path{Name: path})
		}
	}
	return plan.Limits(named)
}
