package daemon

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"
	"kernel.org/pub/linux/libs/security/libcap/cap"

	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
)

// dns is the port on which names are resolved over TCP.
const dns = "53"

// Port returns a port in the form of [Plan.Connect].
func Port(p uint16) string { return strconv.Itoa(int(p)) }

// Limits returns the limits that leave the process what it needs. named are the files of the configuration.
func (p Plan) Limits(named []observe.Path) (confine.Limits, error) {
	c := p.Process.Confine
	l := confine.Limits{Syscalls: confine.ServiceSyscalls(), Landlock: confine.BestEffort}
	switch c.Landlock {
	case "required":
		l.Landlock = confine.Required
	case "off":
		l.Landlock = confine.Off
	}
	if c.Seccomp == "off" {
		l.Seccomp = confine.Off
	}
	var err error
	if l.Files, err = p.files(named); err != nil {
		return l, err
	}
	var bind []string
	for _, place := range p.Listens {
		bind = append(bind, place.Address)
	}
	if l.Bind, err = ports(bind); err != nil {
		return l, err
	}
	connect := slices.Clone(p.Connect)
	if len(connect)+len(c.Connect) > 0 {
		connect = append(connect, dns)
	}
	if l.Connect, err = ports(connect); err != nil {
		return l, err
	}
	l.Connect, l.AnyConnect = append(l.Connect, c.Connect...), c.AnyPort
	if slices.ContainsFunc(l.Bind, func(p uint16) bool { return p > 0 && p < 1024 }) {
		l.Capabilities = []cap.Value{cap.NET_BIND_SERVICE}
	}
	return l, nil
}

// files returns what the process may still use. For a file these are its folders.
func (p Plan) files(named []observe.Path) (all []confine.File, err error) {
	c := p.Process.Confine
	add := func(use confine.Use, paths ...string) {
		for _, path := range paths {
			if f := (confine.File{Path: path, Use: use}); !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	add(confine.Read, confine.SystemFiles...)
	add(confine.Read, append(filepath.SplitList(os.Getenv("SSL_CERT_DIR")), os.Getenv("SSL_CERT_FILE"))...)
	if at, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && filepath.Dir(at) != "/etc" {
		add(confine.Read, filepath.Dir(at)) // a local resolver replaces the file there
	}
	if p.Proc {
		add(confine.Read, "/proc")
	}
	for _, f := range named {
		if f.Name == executable() {
			continue
		}
		for _, dir := range files.Folders(f.Name) {
			if dir == "/" {
				return nil, fmt.Errorf(
					"%s is in the root folder, which would make every file readable: give it a folder of its own",
					f.Name)
			}
			add(confine.Read, dir)
		}
	}
	if p.Endpoint.Unix != "" {
		add(confine.Listen, filepath.Dir(p.Endpoint.Unix))
	}
	add(confine.Write, p.Write...)
	add(confine.Move, p.Move...)
	if p.Registrar != nil {
		add(confine.Write, filepath.Dir(p.Trust.Bundle))
	}
	add(confine.Read, c.Read...)
	add(confine.Write, c.Write...)
	return all, nil
}

// ports returns the ports of addresses, URLs and bare ports. It skips empty texts.
func ports(addresses []string) ([]uint16, error) {
	var out []uint16
	for _, a := range addresses {
		if a == "" {
			continue
		}
		p := a
		if u, err := url.Parse(a); err == nil && u.Host != "" {
			if p = u.Port(); p == "" {
				p = u.Scheme // LookupPort knows the port by the scheme's name
			}
		} else if _, after, err := net.SplitHostPort(a); err == nil {
			p = after
		}
		n, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", p)
		if err != nil {
			return nil, fmt.Errorf("%q names no port: %w", a, err)
		}
		out = append(out, uint16(n)) //nolint:gosec // LookupPort returns a port
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Confine confines this process to its plan, and logs each layer. First it makes Go read the files that Go reads once.
func (p *Process) Confine(plan Plan, o *Observer) error {
	l, err := plan.Limits(o.Paths)
	if err != nil {
		return refusal.New("not_confined", "this process does not start: %v", err)
	}
	_, _ = time.Now().Zone() // package time keeps the zone of the machine
	net.DefaultResolver.PreferGo = true
	if p.Confined, err = confine.Apply(l); err != nil {
		return refusal.New("not_confined", "this process does not start: %v", err)
	}
	for _, layer := range p.Confined.Layers() {
		say := p.Log.Info
		if !layer.InForce {
			say = p.Log.Warn
		}
		say("confinement", zap.String("layer", layer.Name), zap.Bool("inForce", layer.InForce),
			zap.String("seen", layer.Seen))
	}
	return nil
}

// checkConfined refuses a plan that needs more than this process has kept.
func (p *Process) checkConfined(plan Plan, o *Observer) error {
	l, err := plan.Limits(o.Paths)
	if err != nil {
		return err
	}
	return restartRequired(p.Confined.Missing(l))
}
