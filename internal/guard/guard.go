// Package guard makes the rules that leave a pod only one way out: through the mediator. They are nftables rules in the
// network namespace that all containers of a pod share. They tell processes apart by their users, and only the
// mediator's users may leave. A connection of another process to a redirected port reaches the transparent listener.
// Everything else that another process sends is refused and counted; each way out has a counter of its own.
//
// Rules makes a Ruleset, which can be installed, read back, counted or printed for nft. All rules are in tables of
// their own. If one of these tables drops a packet, no other table can let it through.
package guard

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Options say which users may leave, and where all other users may go.
type Options struct {
	// UIDs are the users that may leave: those of the mediator. At least one is required, and root is refused.
	UIDs []uint32
	// Proxy is the port of the proxy on 127.0.0.1. Required.
	Proxy uint16
	// Transparent is the port of the transparent listener on 127.0.0.1. Redirect are the TCP ports that are redirected
	// to it. Set both or neither.
	Transparent uint16
	Redirect    []uint16
	// Admin are TCP ports of the mediator on loopback that agents must not reach. Loopback does not open them.
	Admin []uint16
	// Loopback are the TCP and UDP ports on loopback that agents may use among themselves.
	Loopback []PortRange
	// Resolvers are DNS servers that all users may ask, on port 53. A process can send data out by the names that it
	// asks for.
	Resolvers []netip.Addr
	// Inbound are TCP ports of the mediator to which others may connect from outside.
	Inbound []uint16
	// Devices are network devices, other than loopback. Packet sockets are refused there too, on the way out. They need
	// Linux 5.16.
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
	CountKernel   = "refused_kernel"   // packets of the kernel without a socket, such as a reset to a stranger
	CountForward  = "refused_forward"  // packets that this machine would forward
	CountInbound  = "refused_inbound"  // connections from outside
	CountPacket   = "refused_packet"   // packet sockets, which bypass all of the above
	CountProbe    = "refused_probe"    // the mediator's own check of the rules
)

// counters are the counters of the first table, in the order in which they are shown.
var counters = []string{
	CountSpoofed, CountOptions, CountIPv6, CountAdmin, CountLoopback, CountDNS, CountQUIC, CountUDP, CountTCP, CountICMP, CountProtocol,
	CountKernel, CountForward, CountInbound, CountProbe,
}

// ProbeAddress is an address that no machine has (RFC 5737). The rules treat packets of the mediator to this address as
// if another user had sent them: they redirect TCP and refuse UDP. A mediator without rights uses this to see that the
// rules are in force.
var ProbeAddress = netip.AddrFrom4([4]byte{192, 0, 2, 1})

// mark marks the mediator's connections, so that packets that the kernel sends for a closed socket may leave too.
const mark = 0x6d656469
