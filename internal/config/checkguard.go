package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/guard"
	"github.com/actionproof/mediator/internal/strict"
)

// LoadGuard reads the options of mediator guard from a sidecar's configuration. It reads no other file: an init
// container may lack them.
func LoadGuard(path string) (guard.Options, error) {
	c := new(Sidecar)
	f, err := load(path, c)
	if err != nil {
		return guard.Options{}, err
	}
	if c.Guard == nil {
		f.Add("guard", "is required for mediator guard")
	}
	c.checkTransparent(f)
	c.checkGuard(f)
	if err := f.Err(); err != nil {
		return guard.Options{}, err
	}
	o := c.GuardOptions()
	if len(c.Guard.Devices) == 0 {
		o.Devices, err = guard.Devices()
		return o, err
	}
	return o, nil
}

func (c *Sidecar) checkGuard(f *findings) {
	if c.Guard == nil {
		return
	}
	if c.Agent.UID != nil && slices.Contains(c.Guard.UIDs, *c.Agent.UID) {
		f.Add("guard.uids", "%d is agent.uid: the agent could bypass the mediator", *c.Agent.UID)
	}
	if _, err := guard.Rules(c.guardOptions(f)); err != nil && f.Correct() {
		f.Add("guard", "%s", strings.TrimPrefix(err.Error(), "guard: "))
	}
}

// GuardOptions returns the options of mediator guard. The configuration must be correct and have a guard.
func (c *Sidecar) GuardOptions() guard.Options {
	return c.guardOptions(&findings{File: new(strict.File)})
}

func (c *Sidecar) guardOptions(f *findings) guard.Options {
	g := c.Guard
	o := guard.Options{UIDs: g.UIDs, Proxy: loopbackPort("listen", c.Listen, f), Inbound: g.Inbound}
	if c.Transparent != nil {
		o.Transparent, o.Redirect = loopbackPort("transparent.listen", c.Transparent.Listen, f), []uint16{443, 80}
	}
	for _, address := range []string{c.Admin.TCP, c.Trigger.TCP, c.Control.TCP, c.ConsoleAddress()} {
		if at := fields.PortIn(address); at != 0 {
			o.Admin = append(o.Admin, at)
		}
	}
	if c.Probes != nil {
		o.Inbound = append(slices.Clone(o.Inbound), fields.PortIn(c.Probes.Listen))
	}
	for i, s := range g.Resolvers {
		a, err := netip.ParseAddr(s)
		if err != nil {
			f.Add(fmt.Sprintf("guard.resolvers[%d]", i), "%q is not an IP address", s)
		}
		o.Resolvers = append(o.Resolvers, a)
	}
	for i, s := range g.Loopback {
		r, err := parsePorts(s)
		if err != nil {
			f.Add(fmt.Sprintf("guard.loopback[%d]", i), "%q is neither a port nor a range of ports", s)
		}
		o.Loopback = append(o.Loopback, r)
	}
	if len(g.Devices) != 1 || g.Devices[0] != "none" {
		o.Devices = g.Devices
	}
	return o
}

func loopbackPort(key, listen string, f *findings) uint16 {
	at, err := netip.ParseAddrPort(listen)
	if err != nil || at.Addr() != netip.AddrFrom4([4]byte{127, 0, 0, 1}) && at.Addr() != netip.IPv4Unspecified() ||
		at.Port() == 0 {
		f.Add(key, "must be 127.0.0.1 or 0.0.0.0 with a port, not %q: the rules of guard send connections to 127.0.0.1",
			listen)
	}
	return at.Port()
}

func parsePorts(s string) (guard.PortRange, error) {
	from, to, isRange := strings.Cut(s, "-")
	first, err := strconv.ParseUint(from, 10, 16)
	last := first
	if isRange && err == nil {
		last, err = strconv.ParseUint(to, 10, 16)
	}
	return guard.PortRange{First: uint16(first), Last: uint16(last)}, err
}
