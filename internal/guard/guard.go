// Package guard makes the rules that leave a pod only one way out: through the mediator. They are nftables rules of the network
// namespace that all containers of a pod share, and tell processes apart by their user. Only the mediator's users may leave. What
// another process dials at the redirected ports reaches the transparent listener instead, everything else that it sends is refused
// and counted, each way by a counter of its own.
//
// Rules makes them; a Ruleset is installed, read back, counted or printed for nft. All rules go into tables of their own, and a
// packet that one of them drops is not let through by any other table.
package guard

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Options say who may leave, and where everybody else may go.
type Options struct {
	// UIDs are the users that may leave: the mediator's. At least one, and never root.
	UIDs []uint32
	// Proxy is the port of the proxy on 127.0.0.1. Required.
	Proxy uint16
	// Transparent is the port of the transparent listener on 127.0.0.1, and Redirect the TCP ports that are led to it. Neither or both.
	Transparent uint16
	Redirect    []uint16
	// Admin are TCP ports of the mediator on loopback that are not for agents, whatever Loopback says.
	Admin []uint16
	// Loopback are the TCP and UDP ports on loopback by which agents may talk among themselves.
	Loopback []PortRange
	// Resolvers are DNS servers that everybody may ask, on port 53. Whoever may ask a resolver can tell it something.
	Resolvers []netip.Addr
	// Inbound are TCP ports of the mediator to which others may connect from outside.
	Inbound []uint16
	// Devices are the network devices, other than loopback, on whose way out packet sockets are refused as well. They need Linux 5.16.
	Devices []string
}

// PortRange is the ports from First to Last, both included.
type PortRange struct{ First, Last uint16 }

func (o *Options) check() error {
	if len(o.UIDs) == 0 {
		return errors.New("guard: no user may leave: name the mediator's")
	}
	for _, uid := range o.UIDs {
		if uid == 0 {
			return errors.New("guard: root cannot be told apart from what it starts: give the mediator a user of its own")
		}
	}
	if o.Proxy == 0 {
		return errors.New("guard: the proxy's port is missing")
	}
	if (o.Transparent == 0) != (len(o.Redirect) == 0) {
		return errors.New("guard: redirected ports need a transparent listener, and a transparent listener redirected ports")
	}
	for _, r := range o.Loopback {
		if r.First == 0 || r.Last < r.First {
			return fmt.Errorf("guard: %d to %d is no range of ports", r.First, r.Last)
		}
	}
	for _, a := range o.Resolvers {
		if !a.Is4() {
			return fmt.Errorf("guard: the resolver %s is not IPv4, and IPv6 is refused", a)
		}
	}
	for _, d := range o.Devices {
		if d == "" || len(d) > 15 || d == "lo" || strings.ContainsAny(d, "\"\\/ \t\n") {
			return fmt.Errorf("guard: %q is no network device that leads out", d)
		}
	}
	return nil
}

// The counters. Each names one way that was refused; Count returns them.
const (
	CountSpoofed  = "refused_spoofed"  // a source address that is not this machine's
	CountOptions  = "refused_options"  // IPv4 with options, such as a source route
	CountIPv6     = "refused_ipv6"     // anything over IPv6
	CountAdmin    = "refused_admin"    // the mediator's own ports on loopback
	CountLoopback = "refused_loopback" // other ports on loopback
	CountDNS      = "refused_dns"      // DNS, also over TLS or QUIC, to a resolver that is not named
	CountQUIC     = "refused_quic"     // UDP to port 443 or 80
	CountUDP      = "refused_udp"      // other UDP
	CountTCP      = "refused_tcp"      // TCP to a port that is not redirected, or around the redirection
	CountICMP     = "refused_icmp"     // ICMP
	CountProtocol = "refused_protocol" // any other protocol, such as SCTP or GRE
	CountKernel   = "refused_kernel"   // what the kernel itself sends for nobody's socket, such as a reset to a stranger
	CountForward  = "refused_forward"  // what this machine would only pass on
	CountInbound  = "refused_inbound"  // connections from outside
	CountPacket   = "refused_packet"   // packet sockets, which go past all of the above
	CountProbe    = "refused_probe"    // the mediator's own look whether the rules stand
)

// counters are those of the first table, in the order in which they are shown.
var counters = []string{
	CountSpoofed, CountOptions, CountIPv6, CountAdmin, CountLoopback, CountDNS, CountQUIC, CountUDP, CountTCP, CountICMP, CountProtocol,
	CountKernel, CountForward, CountInbound, CountProbe,
}

// ProbeAddress is an address that nobody has (RFC 5737). What the mediator itself sends there is treated as if another user had
// sent it: TCP is redirected and UDP refused, by which a mediator without rights sees that the rules stand.
var ProbeAddress = netip.AddrFrom4([4]byte{192, 0, 2, 1})

// mark is set on the mediator's connections, so that what the kernel still sends for a closed socket may leave too.
const mark = 0x6d656469
