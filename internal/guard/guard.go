// Package guard makes nftables rules that force all traffic of a pod through the mediator. They apply in the network
// namespace that all containers of the pod share, and distinguish processes by user: only the mediator's users may
// leave. Connections of others to a redirected port reach the transparent listener. All their other packets are
// refused, with a counter for each way out. If one table drops a packet, no other table can let it through.
package guard

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Options names the users that may leave, and where all other users may go.
type Options struct {
	// UIDs are the mediator's users, which may leave. At least one is required, and root is refused.
	UIDs []uint32
	// Proxy is the port of the proxy on 127.0.0.1. Required.
	Proxy uint16
	// Transparent is the port of the transparent listener on 127.0.0.1, and Redirect the TCP ports that are redirected
	// to it. Set both or neither.
	Transparent uint16
	Redirect    []uint16
	// Admin are the mediator's TCP ports on loopback that agents must not reach, even if Loopback has them.
	Admin []uint16
	// Loopback are the TCP and UDP ports on loopback that agents may use among themselves.
	Loopback []PortRange
	// Resolvers are DNS servers that all users may ask on port 53. Names in queries can carry data out.
	Resolvers []netip.Addr
	// Inbound are the mediator's TCP ports that accept connections from outside.
	Inbound []uint16
	// Devices are network devices, except loopback, at which outgoing packet sockets are refused too. They need Linux
	// 5.16.
	Devices []string
}

// PortRange is the ports from First to Last, both included.
type PortRange struct{ First, Last uint16 }

func (o *Options) check() error {
	if len(o.UIDs) == 0 {
		return errors.New("guard: no user may connect out of the pod: name the mediator's user")
	}
	for _, uid := range o.UIDs {
		if uid == 0 {
			return errors.New("guard: the rules cannot tell root from the processes that it starts: give the mediator its own " +
				"user")
		}
	}
	if o.Proxy == 0 {
		return errors.New("guard: the proxy's port is missing")
	}
	if (o.Transparent == 0) != (len(o.Redirect) == 0) {
		return errors.New("guard: redirected ports and a transparent listener need each other")
	}
	for _, r := range o.Loopback {
		if r.First == 0 || r.Last < r.First {
			return fmt.Errorf("guard: %d to %d is not a range of ports", r.First, r.Last)
		}
	}
	for _, a := range o.Resolvers {
		if !a.Is4() {
			return fmt.Errorf("guard: the resolver %s is not IPv4, and IPv6 is refused", a)
		}
	}
	for _, d := range o.Devices {
		if d == "" || len(d) > 15 || d == "lo" || strings.ContainsAny(d, "\"\\/ \t\n") {
			return fmt.Errorf("guard: %q is not a network device that leads out of the pod", d)
		}
	}
	return nil
}

// The counters, one for each refused way out.
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

// counters are the counters of the first table, in the order of display.
var counters = []string{
	CountSpoofed, CountOptions, CountIPv6, CountAdmin, CountLoopback, CountDNS, CountQUIC, CountUDP, CountTCP,
	CountICMP,
	CountProtocol, CountKernel, CountForward, CountInbound, CountProbe,
}

// ProbeAddress is an address that no machine has (RFC 5737). The rules treat the mediator's packets to it like another
// user's: TCP is redirected, UDP refused. So a mediator without rights can test the rules.
var ProbeAddress = netip.AddrFrom4([4]byte{192, 0, 2, 1})

// mark marks the mediator's connections, so that packets which the kernel sends for a closed socket may leave too.
const mark = 0x6d656469
