package daemon

import (
	"context"
	"crypto/x509"
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

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
)

// Needs is what a process's configuration makes it use once it serves; everything else is taken from it.
type Needs struct {
	Named   []observe.Path // the files that the configuration names: the same ones that the agent must not reach
	Socket  string         // the path of its unix socket
	Write   []string       // folders
	Move    []string       // folders among which files are moved
	Proc    bool           // the processes of the machine or pod
	Bind    []string       // addresses
	Connect []string       // ports, addresses or URLs
}

// Port is a port as Needs lists it.
func Port(p uint16) string { return strconv.Itoa(int(p)) }

// systemFiles are what Go's runtime, resolver and SQLite read by themselves, and the time zones that a schedule or a rule of the policy names.
var systemFiles = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", "/dev/urandom", "/proc/self", "/usr/share/zoneinfo"}

// Limits are what the process is left with.
func (n Needs) Limits(c config.Confine) (confine.Limits, error) {
	l := confine.Limits{Calls: confine.Service(), Landlock: confine.BestEffort}
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
	if l.Files, err = n.files(c); err != nil {
		return l, err
	}
	if l.Bind, err = ports(n.Bind); err != nil {
		return l, err
	}
	if l.Connect, err = ports(n.Connect); err != nil {
		return l, err
	}
	l.Connect = append(l.Connect, c.Connect...)
	if slices.ContainsFunc(l.Bind, func(p uint16) bool { return p > 0 && p < 1024 }) {
		l.Capabilities = []cap.Value{cap.NET_BIND_SERVICE}
	}
	return l, nil
}

// files are those that the process may still use, by the folders that they are in.
func (n Needs) files(c config.Confine) (files []confine.File, err error) {
	add := func(use confine.Use, paths ...string) {
		for _, p := range paths {
			if f := (confine.File{Path: p, Use: use}); !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	add(confine.Read, systemFiles...)
	if at, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && filepath.Dir(at) != "/etc" {
		add(confine.Read, filepath.Dir(at)) // where a local resolver replaces it
	}
	if n.Proc {
		add(confine.Read, "/proc")
	}
	for _, p := range n.Named {
		if p.Name == executable() {
			continue
		}
		for _, dir := range folders(p.Name) {
			if dir == "/" {
				return nil, fmt.Errorf("%s stands in the root folder, and with it everything could be read: give it a folder of its own", p.Name)
			}
			add(confine.Read, dir)
		}
	}
	if n.Socket != "" {
		add(confine.Listen, filepath.Dir(n.Socket))
	}
	add(confine.Write, n.Write...)
	add(confine.Move, n.Move...)
	add(confine.Read, c.Read...)
	add(confine.Write, c.Write...)
	return files, nil
}

// folders are those that hold a file: by its name, and behind symbolic links. A file that is delivered anew is another file in the same
// folder. A folder stands for itself.
func folders(name string) []string {
	var out []string
	at, err := filepath.EvalSymlinks(name)
	if err != nil {
		at = name
	}
	for _, p := range []string{name, at} {
		if abs, err := filepath.Abs(p); err == nil {
			p = abs
		}
		if info, err := os.Stat(p); err != nil || !info.IsDir() {
			p = filepath.Dir(p)
		}
		out = append(out, p)
	}
	return slices.Compact(out)
}

// ports reads the ports of addresses, URLs, or ports alone. Empty ones are left out.
func ports(addresses []string) ([]uint16, error) {
	var out []uint16
	for _, a := range addresses {
		if a == "" {
			continue
		}
		p := a
		if u, err := url.Parse(a); err == nil && u.Host != "" {
			if p = u.Port(); p == "" {
				p = u.Scheme // whose name is its port's
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

// Confine confines this process to what it needs, and says in the log which layers are in force. What Go reads once for all is read now.
func (p *Process) Confine(n Needs, c config.Confine) error {
	l, err := n.Limits(c)
	if err != nil {
		return refusal.New("not_confined", "this process does not start: %v", err)
	}
	_, _ = x509.SystemCertPool() // kept by crypto/x509
	_, _ = time.Now().Zone()     // the zone of the machine, kept by package time
	net.DefaultResolver.PreferGo = true
	if p.Confined, err = confine.Apply(l); err != nil {
		return refusal.New("not_confined", "this process does not start: %v", err)
	}
	for _, layer := range p.Confined.Layers() {
		say := p.Log.Info
		if !layer.InForce {
			say = p.Log.Warn
		}
		say("confinement", zap.String("layer", layer.Name), zap.Bool("inForce", layer.InForce), zap.String("seen", layer.Seen))
	}
	return nil
}

// CheckConfined refuses needs that this process cannot meet any more since it confined itself.
func (p *Process) CheckConfined(n Needs, c config.Confine) error {
	l, err := n.Limits(c)
	if err != nil {
		return err
	}
	return restartRequired(p.Confined.Beyond(l))
}
