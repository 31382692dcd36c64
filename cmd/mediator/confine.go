package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"
	"kernel.org/pub/linux/libs/security/libcap/cap"

	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger/postgres"
)

// reach is what a process's configuration has it reach for once it serves.
type reach struct {
	named   []observe.Path // what it names: the same files that the agent must not reach
	listen  string         // the path of its unix socket
	write   []string
	move    []string
	proc    bool     // the processes of the machine or pod
	bind    []string // addresses
	connect []string // ports, addresses or URLs
}

// reach is what the sidecar reaches for.
func (s *sidecar) reach(o *observer) (reach, error) {
	c := s.T
	r := reach{
		named: o.paths, write: []string{s.file(c.State)}, proc: true, listen: s.admin.unix,
		bind:    []string{c.Listen, c.Admin.TCP},
		connect: append(c.Custody.addresses(), "53", c.Trigger.TCP, c.Control.TCP),
	}
	if c.Transparent != nil {
		r.bind = append(r.bind, c.Transparent.Listen)
	}
	if c.Guard != nil {
		if o := c.guardOptions(&findings{}); len(o.Redirect) > 0 {
			r.connect = append(r.connect, port(o.Redirect[0])) // what is looked at is whether this connection comes back
		}
	}
	for _, a := range s.actions {
		r.connect = append(r.connect, port(a.Match.Port))
	}
	for _, e := range s.egress {
		r.connect = append(r.connect, port(e.Match.Port))
	}
	for _, u := range s.upstreams {
		if u.Address.IsValid() && u.Address.Port() != 0 {
			r.connect = append(r.connect, port(u.Address.Port()))
		}
	}
	for _, api := range s.apis {
		r.connect = append(r.connect, api.Challenge, api.Verify)
	}
	if s.ledgerDSN != "" {
		ports, err := postgres.Ports(s.ledgerDSN)
		if err != nil {
			return r, err
		}
		for _, p := range ports {
			r.connect = append(r.connect, port(p))
		}
	}
	return r, nil
}

// reach is what the trigger service reaches for.
func (t *triggerService) reach(o *observer) reach {
	c := t.T
	r := reach{named: o.paths, write: []string{t.file(c.State)}, listen: t.internal.unix, bind: []string{c.Listen, c.Internal.TCP}, connect: c.Custody.addresses()}
	for _, s := range c.Sources {
		if s.Queue != nil {
			r.move = append(r.move, t.file(s.Queue.Dir))
		}
	}
	return r
}

// reach is what the control plane reaches for.
func (p *controlPlane) reach(o *observer) reach {
	return reach{named: o.paths, listen: p.internal.unix, bind: []string{p.T.Internal.TCP}, connect: p.T.Custody.addresses()}
}

// addresses are where the custody is reached over TCP; the name of Vault's address may have to be asked for over TCP too.
func (c custodyConfig) addresses() []string {
	if c.Vault == nil {
		return nil
	}
	return []string{c.Vault.Address, "53"}
}

func port(p uint16) string { return strconv.Itoa(int(p)) }

// systemFiles are what Go's runtime, resolver and SQLite read by themselves, and the time zones that a schedule or a rule of the policy names.
var systemFiles = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", "/dev/urandom", "/proc/self", "/usr/share/zoneinfo"}

// limits are what the process is left with.
func (r reach) limits(c confineConfig, file func(string) string) (confine.Limits, error) {
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
	if l.Files, err = r.files(c, file); err != nil {
		return l, err
	}
	if l.Bind, err = ports(r.bind); err != nil {
		return l, err
	}
	if l.Connect, err = ports(r.connect); err != nil {
		return l, err
	}
	l.Connect = append(l.Connect, c.Connect...)
	if slices.ContainsFunc(l.Bind, func(p uint16) bool { return p > 0 && p < 1024 }) {
		l.Capabilities = []cap.Value{cap.NET_BIND_SERVICE}
	}
	return l, nil
}

// files are those that the process may still use, by the folders that they are in.
func (r reach) files(c confineConfig, file func(string) string) (files []confine.File, err error) {
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
	if r.proc {
		add(confine.Read, "/proc")
	}
	for _, p := range r.named {
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
	if r.listen != "" {
		add(confine.Listen, filepath.Dir(r.listen))
	}
	add(confine.Write, r.write...)
	add(confine.Move, r.move...)
	for _, name := range c.Read {
		add(confine.Read, file(name))
	}
	for _, name := range c.Write {
		add(confine.Write, file(name))
	}
	return files, nil
}

// folders are those in which a file is, by its name and behind symbolic links: what is delivered anew is another file in its place. A folder
// stands for itself.
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

// confine confines this process to what it reaches for, and says in the log what of it is in force. What is read once and for all is read now.
func (p *process) confine(r reach, c confineConfig, file func(string) string) error {
	l, err := r.limits(c, file)
	if err != nil {
		return refusal.New("not_confined", "this process does not start: %v", err)
	}
	_, _ = x509.SystemCertPool() // kept by crypto/x509
	_, _ = time.Now().Zone()     // the zone of the machine, kept by package time
	net.DefaultResolver.PreferGo = true
	if p.confined, err = confine.Apply(l); err != nil {
		return refusal.New("not_confined", "this process does not start: %v", err)
	}
	for _, layer := range p.confined.Layers() {
		say := p.log.Info
		if !layer.InForce {
			say = p.log.Warn
		}
		say("confinement", zap.String("layer", layer.Name), zap.Bool("inForce", layer.InForce), zap.String("seen", layer.Seen))
	}
	return nil
}

// checkWithin refuses what this process cannot reach any more since it confined itself.
func (p *process) checkWithin(r reach, c confineConfig, file func(string) string) error {
	l, err := r.limits(c, file)
	if err != nil {
		return err
	}
	return restartRequired(p.confined.Beyond(l))
}

func (c confineConfig) check(f *findings) {
	choice("confine.landlock", c.Landlock, f, "best_effort", "required", "off")
	choice("confine.seccomp", c.Seccomp, f, "required", "off")
}

// processLayers is what one process says of its confinement.
type processLayers struct {
	Process string          `json:"process"`
	Layers  []confine.Layer `json:"layers"`
	Error   string          `json:"error,omitempty"` // why it says nothing
}

// confinement asks the three processes.
func (a *adminServer) confinement(w http.ResponseWriter, r *http.Request) {
	out := []processLayers{{Process: "serve", Layers: a.confined.Layers()}}
	for _, p := range a.peers {
		said := processLayers{Process: p.name}
		if err := p.ask(r.Context(), "/v1/layers", &said.Layers); err != nil {
			said.Error = err.Error()
		}
		out = append(out, said)
	}
	wire.Write(w, out, nil)
}

// layersHandler answers GET /v1/layers.
func layersHandler(mux *http.ServeMux, c *confine.Confined) {
	mux.HandleFunc("GET /v1/layers", func(w http.ResponseWriter, _ *http.Request) { wire.Write(w, c.Layers(), nil) })
}
