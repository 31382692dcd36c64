package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/guard"
)

func guardCommand() *cobra.Command {
	var path string
	var print, check bool
	var asJSON bool
	c := &cobra.Command{
		Use: "guard --config FILE", Short: "Leave a pod one way out: through the mediator", Args: noArgs,
		Long: `Installs nftables rules in this network namespace, as the sidecar's configuration says under guard: only the mediator's users may leave,
what others dial at the redirected ports reaches the transparent listener, and all else that they send is refused and counted. Rules that
stand are replaced in one transaction. It needs CAP_NET_ADMIN, and is meant for an init container of the agent's pod: in a machine's own
network namespace it would cut the machine off.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if print && check {
				return usagef("mediator guard takes either --print or --check")
			}
			rules, err := guardRules(path)
			switch {
			case err != nil:
				return err
			case print:
				_, err := fmt.Fprint(c.OutOrStdout(), rules)
				return err
			case check:
				return checkGuard(c, rules, asJSON)
			}
			if err := rules.Install(); err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), "the rules stand")
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print what --check has counted as JSON")
	c.Flags().StringVar(&path, "config", "", "the sidecar's configuration file (required)")
	c.Flags().BoolVar(&print, "print", false, "print the rules for nft -f, and install nothing")
	c.Flags().BoolVar(&check, "check", false, "read back the rules that stand and say whether they are these, and what they refused; install nothing")
	required(c, "config")
	return c
}

func checkGuard(c *cobra.Command, rules *guard.Ruleset, asJSON bool) error {
	if err := rules.Check(); err != nil {
		return err
	}
	counted, err := rules.Count()
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), map[string]any{"refused": counted})
	}
	out := c.OutOrStdout()
	fmt.Fprintln(out, "the rules stand; packets refused:")
	for _, name := range rules.Counters() {
		fmt.Fprintf(out, "%8d %s\n", counted[name], name)
	}
	return nil
}

// guardRules makes the rules from a sidecar's configuration. It reads none of the files that the configuration names: an init container
// need not have them.
func guardRules(path string) (*guard.Ruleset, error) {
	l, err := load[serveConfig](path)
	if err != nil {
		return nil, err
	}
	f := findings{}
	if l.T.Guard == nil {
		f.add("guard", "is required for mediator guard")
	}
	l.T.checkTransparent(&f)
	l.T.checkGuard(&f)
	if err := f.err(path); err != nil {
		return nil, err
	}
	o := l.T.guardOptions(&f)
	if len(l.T.Guard.Devices) == 0 {
		if o.Devices, err = devices(); err != nil {
			return nil, err
		}
	}
	return guard.Rules(o)
}

func (c serveConfig) checkGuard(f *findings) {
	if c.Guard == nil {
		return
	}
	if c.Agent.UID != nil && slices.Contains(c.Guard.UIDs, *c.Agent.UID) {
		f.add("guard.uids", "%d is agent.uid: the agent could leave past the mediator", *c.Agent.UID)
	}
	if _, err := guard.Rules(c.guardOptions(f)); err != nil && len(*f) == 0 {
		f.add("guard", "%s", strings.TrimPrefix(err.Error(), "guard: "))
	}
}

// guardOptions reads what the rules are made of.
func (c serveConfig) guardOptions(f *findings) guard.Options {
	g := c.Guard
	o := guard.Options{UIDs: g.UIDs, Proxy: loopbackPort("listen", c.Listen, f), Inbound: g.Inbound, Redirect: g.Redirect}
	switch {
	case c.Transparent != nil:
		o.Transparent = loopbackPort("transparent.listen", c.Transparent.Listen, f)
		if len(o.Redirect) == 0 {
			o.Redirect = []uint16{443, 80}
		}
	case len(g.Redirect) > 0:
		f.add("guard.redirect", "needs transparent.listen")
	}
	for _, e := range []endpointConfig{c.Admin, c.Trigger, c.Control} {
		if at := portIn(e.TCP); at != 0 {
			o.Admin = append(o.Admin, at)
		}
	}
	for i, s := range g.Resolvers {
		a, err := netip.ParseAddr(s)
		if err != nil {
			f.add(fmt.Sprintf("guard.resolvers[%d]", i), "%q is not an IP address", s)
		}
		o.Resolvers = append(o.Resolvers, a)
	}
	for i, s := range g.Loopback {
		r, err := parsePorts(s)
		if err != nil {
			f.add(fmt.Sprintf("guard.loopback[%d]", i), "%q is neither a port nor a range of ports", s)
		}
		o.Loopback = append(o.Loopback, r)
	}
	if len(g.Devices) != 1 || g.Devices[0] != "none" {
		o.Devices = g.Devices
	}
	return o
}

// loopbackPort returns the port of a listener that answers at 127.0.0.1.
func loopbackPort(key, listen string, f *findings) uint16 {
	at, err := netip.ParseAddrPort(listen)
	if err != nil || at.Addr() != netip.AddrFrom4([4]byte{127, 0, 0, 1}) && at.Addr() != netip.IPv4Unspecified() || at.Port() == 0 {
		f.add(key, "%q is not 127.0.0.1 (or 0.0.0.0) with a port, to which the rules of guard lead", listen)
	}
	return at.Port()
}

// parsePorts reads a port or FIRST-LAST.
func parsePorts(s string) (guard.PortRange, error) {
	from, to, isRange := strings.Cut(s, "-")
	first, err := strconv.ParseUint(from, 10, 16)
	last := first
	if isRange && err == nil {
		last, err = strconv.ParseUint(to, 10, 16)
	}
	return guard.PortRange{First: uint16(first), Last: uint16(last)}, err
}

// devices returns the network devices that lead out.
func devices() ([]string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	var out []string
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 {
			out = append(out, i.Name)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("guard: there is no network device that leads out; name those that will be there in guard.devices")
	}
	return out, nil
}
