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

// Resources lists what a process uses while it serves, by its configuration. Confinement takes everything else from it.
type Resources struct {
	Named   []observe.Path // files that the configuration names, which the agent must not reach
	Socket  string         // the path of its unix socket
	Write   []string       // folders
	Move    []string       // folders between which files are moved
	Proc    bool           // the processes of the machine or pod
	Bind    []string       // addresses
	Connect []string       // ports, addresses or URLs
}

// Port returns a port in the form of Needs.
func Port(p uint16) string { return strconv.Itoa(int(p)) }

// systemFiles are files that Go's runtime, its resolver and SQLite read by themselves, and the time zones that a
// schedule or a policy rule can name.
var systemFiles = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", "/dev/urandom", "/proc/self", "/usr/share/zoneinfo"}

// Limits returns the limits that leave the process what it needs.
func (n Resources) Limits(c config.Confine) (confine.Limits, error) {
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
	if l.Files, err = n.files(c); err != nil {
		return l, err
	}
	if l.Bind, err = ports(n.Bind); err != nil {
		return l, err
	}
	if l.Connect, err = ports(n.Connect); err != nil {
		return l, err
	}
	l.Connect, l.AnyConnect = append(l.Connect, c.Connect...), c.AnyPort
	if slices.ContainsFunc(l.Bind, func(p uint16) bool { return p > 0 && p < 1024 }) {
		l.Capabilities = []cap.Value{cap.NET_BIND_SERVICE}
	}
	return l, nil
}

// files returns the files that the process may still use. A file stands for its folders; see folders.
func (n Resources) files(c config.Confine) (files []confine.File, err error) {
	add := func(use confine.Use, paths ...string) {
		for _, p := range paths {
			if f := (confine.File{Path: p, Use: use}); !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	add(confine.Read, systemFiles...)
	if at, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && filepath.Dir(at) != "/etc" {
		add(confine.Read, filepath.Dir(at)) // a local resolver replaces the file there
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

// folders returns the folders that hold a file: the folder of its name and, behind symbolic links, the folder of its
// target. A folder and not a file is allowed, because a file that is delivered again is another file in the same
// folder. For a folder, folders returns the folder itself.
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

// ports returns the ports of addresses, of URLs and of texts that are a port alone. It skips empty texts.
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

// Confine confines this process to what it needs, and logs which layers are in force. What Go reads only once, it makes
// Go read before that.
func (p *Process) Confine(n Resources, c config.Confine) error {
	l, err := n.Limits(c)
	if err != nil {
		return refusal.New("not_confined", "this process does not start: %v", err)
	}
	_, _ = x509.SystemCertPool() // crypto/x509 keeps them
	_, _ = time.Now().Zone()     // package time keeps the zone of the machine
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

// CheckConfined refuses needs that this process cannot meet because it has confined itself to fewer.
func (p *Process) CheckConfined(n Resources, c config.Confine) error {
	l, err := n.Limits(c)
	if err != nil {
		return err
	}
	return restartRequired(p.Confined.Missing(l))
}
