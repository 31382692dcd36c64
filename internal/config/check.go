package config

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/identity"
)

func (e *Endpoint) Check(key string, f *findings) { e.checkWith(key, Tokens{}, f) }

func (a *Admin) Check(key string, f *findings) {
	a.checkWith(key, a.Tokens, f)
	for name, path := range map[string]string{".tokens.read": a.Tokens.Read, ".tokens.operate": a.Tokens.Operate} {
		if path != "" && a.TCP == "" {
			f.Add(key+name, "has no meaning without tcp: at a unix socket, the kernel identifies the caller's user")
		}
	}
}

// checkWith checks an endpoint that also admits callers with these tokens.
func (e *Endpoint) checkWith(key string, tokens Tokens, f *findings) {
	if e.Unix == "" && e.TCP == "" {
		f.Add(key, "needs unix, tcp or both")
	}
	checkSocket(f, key, e.Unix)
	if e.TCP != "" {
		checkTCP(f, key, e.TCP)
	}
	if e.TCP == "" && len(e.Callers) > 0 {
		f.Add(key+".callers",
			"has no meaning without tcp: at a unix socket, the kernel identifies the caller's user, for uids")
	}
	if e.Unix == "" && len(e.UIDs) > 0 {
		f.Add(key+".uids", "has no meaning without unix: over tcp, certificates identify the callers, for callers")
	}
	if e.TCP != "" && len(e.Callers) == 0 && tokens == (Tokens{}) {
		f.Add(key+".callers", "is required for tcp: only the callers that it lists may connect")
	}
	for i, pattern := range e.Callers {
		if err := identity.CheckPattern(pattern); err != nil {
			f.Add(fmt.Sprintf("%s.callers[%d]", key, i), "%v", err)
		}
	}
}

// checkSocket refuses a path for which the kernel has no room (sun_path, with a zero byte at its end).
func checkSocket(f *findings, key, path string) {
	const most = len(syscall.RawSockaddrUnix{}.Path) - 1
	if len(path) > most {
		f.Add(key+".unix", "%s is too long for a socket, whose path has at most %d bytes", path, most)
	}
}

// Admits reports whether the caller may connect over TCP.
func (e *Endpoint) Admits(caller identity.ID) bool {
	return slices.ContainsFunc(e.Callers, caller.Matches)
}

func (p *Peer) Check(key string, f *findings) {
	checkSocket(f, key, p.Unix)
	if p.TCP != "" {
		checkTCP(f, key, p.TCP)
	}
	switch {
	case p.Unix != "" && p.Name != "":
		f.Add(key+".name", "has no meaning with unix, where the path names the process")
	case p.Name != "":
		checkName(key+".name", p.Name, f)
	}
}

func checkName(key, name string, f *findings) {
	if err := identity.CheckName(name); err != nil {
		f.Add(key, "%v", err)
	}
}

func checkTCP(f *findings, key, address string) {
	if fields.PortIn(address) == 0 {
		f.Add(key+".tcp", "%q needs a port other than 0, so that others can connect", address)
	}
	f.OverTCP = append(f.OverTCP, key)
}

// Check needs the checks of all endpoints before it, as it has: blocks are checked after their keys.
func (p *Process) Check(_ string, f *findings) {
	if p.Registrar != nil && p.Registrar.Unix != "" {
		f.Add("registrar.unix",
			"has no meaning: the registrar answers only over TCP, and knows its callers by their certificates")
	}
	p.TLS.check("tls.", p.Registrar != nil, f)
	for _, key := range f.OverTCP {
		if p.TLS == nil {
			f.Add(key+".tcp", "needs tls: over TCP, each process must have a certificate that names it")
		}
	}
}

func (t *TLS) check(key string, registrar bool, f *findings) {
	if t != nil && (t.Certificate == "" || t.Key == "") == (t.Token == "" || t.Certificate+t.Key != "" || !registrar) {
		f.Add(key+"certificate", "is required together with key; in a pod with a registrar, set token instead of both")
	}
}

// String returns the endpoint as commands name it, by its socket if it has one, or nothing for an empty one.
func (e Endpoint) String() string { return Peer{Unix: e.Unix, TCP: e.TCP}.String() }

// String returns the endpoint as commands name it, or nothing for an empty one.
func (p Peer) String() string {
	switch {
	case p.Unix != "":
		return "unix:" + p.Unix
	case p.TCP != "":
		return "https://" + p.TCP
	}
	return ""
}

func parseAddress(s string) (netip.AddrPort, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(addr, 0), nil
	}
	return netip.ParseAddrPort(s)
}

func parseNetworks(list []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(list))
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil || p.Addr().Is4In6() {
			return nil, fmt.Errorf("%q is not an address range such as 10.0.0.0/8", s)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func (c *Agent) Check(key string, f *findings) {
	if c.UID == nil && len(c.GIDs) > 0 {
		f.Add(key+".gids", "has no meaning without %s.uid", key)
	}
}

func (c *Agent) keepFrom(f *findings, key string, e Endpoint) {
	if c.UID != nil && slices.Contains(e.UIDs, *c.UID) {
		f.Add(key+".uids", "%d is agent.uid: the agent must not reach this socket", *c.UID)
	}
}
