package console

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

// Login is the answer to a request for a URL that logs in one browser.
type Login struct {
	URL string `json:"url"`
}

// LoginPath is where a console's socket gives out a URL, to those who may use the socket.
const LoginPath = "/v1/login"

// limits bound the connections of browsers. The news for a page have no end.
var limits = daemon.Limits{Connections: 128, PerAddress: 128, Header: 10 * time.Second}

// Run serves a console at a loopback address until ctx ends. Its unix socket, for its own user and root, gives out URLs
// that log in. It calls ready with the first one. reads are the files, beside those of o.Trust, that o.Judge reads. The
// process confines itself.
func (s *Server) Run(ctx context.Context, listen, socket string, reads []string, ready func(login string)) error {
	at, err := netip.ParseAddrPort(listen)
	if err != nil || !at.Addr().IsLoopback() {
		return refusal.New("listen_failed", "the console listens on loopback, which %q is not", listen)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return refusal.New("listen_failed", "%v: end what listens there, or set console in the sidecar's configuration", err)
	}
	defer l.Close()
	log := zap.NewNop()
	operators, err := daemon.Listen(config.Endpoint{Unix: socket}, nil, log)
	if err != nil {
		return err
	}
	defer operators.Close()
	if _, err := confine.Apply(s.confined(socket, reads)); err != nil {
		return refusal.New("not_confined", "the console does not start: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+LoginPath, func(w http.ResponseWriter, _ *http.Request) {
		wire.Write(w, Login{s.LoginURL()}, nil)
	})
	ready(s.LoginURL())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return daemon.Serve(ctx, operators, mux, daemon.Limits{}, time.Second, log) })
	group.Go(func() error { return daemon.Serve(ctx, l, s, limits, time.Second, log) })
	return group.Wait()
}

// confined returns what the process keeps: the files that verify, and connections to the processes.
func (s *Server) confined(socket string, reads []string) confine.Limits {
	l := confine.Limits{Syscalls: confine.ServiceSyscalls(), Landlock: confine.BestEffort}
	add := func(use confine.Use, path string) {
		if abs, err := filepath.Abs(path); err == nil {
			l.Files = append(l.Files, confine.File{Path: abs, Use: use})
		}
	}
	for _, path := range append([]string{s.Trust.Registry, s.Trust.Auditor, s.Trust.Bundle}, reads...) {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil && !info.IsDir() || err != nil {
			path = filepath.Dir(path) // the history is beside it, and another file can take its place
		}
		add(confine.Read, path)
	}
	for _, at := range append([]string{s.Admin, s.Node}, s.Processes...) {
		if tcp, isTCP := strings.CutPrefix(at, "tcp:"); isTCP {
			_, file, _ := strings.Cut(tcp, ",")
			add(confine.Read, filepath.Dir(file))
			l.AnyConnect = true
		}
	}
	for _, path := range []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl",
		"/usr/share/zoneinfo", "/proc/self"} {
		add(confine.Read, path)
	}
	add(confine.Listen, filepath.Dir(socket))
	return l
}
