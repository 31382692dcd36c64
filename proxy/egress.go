package proxy

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// Class is what an IP address is for.
type Class int

// The classes. Only ClassPublic may be dialled without being named in an Upstream's Networks.
const (
	ClassInvalid Class = iota // no address
	ClassPublic
	ClassUnspecified
	ClassLoopback
	ClassPrivate // RFC 1918
	ClassULA     // unique local, IPv6's private
	ClassLinkLocal
	ClassCGNAT
	ClassMulticast
	ClassBenchmark
	ClassDocumentation
	ClassNAT64
	Class6to4
	ClassTeredo
	ClassReserved
	ClassMetadata // where clouds hand out credentials
)

var classNames = [...]string{
	"invalid", "public", "unspecified", "loopback", "private", "unique local", "link-local", "shared (CGNAT)", "multicast",
	"benchmark", "documentation", "NAT64", "6to4", "Teredo", "reserved", "metadata",
}

func (c Class) String() string {
	if c < 0 || int(c) >= len(classNames) {
		return fmt.Sprintf("Class(%d)", int(c))
	}
	return classNames[c]
}

// addressTable is searched from the top. It follows IANA's registries of special-purpose IPv4 and IPv6 addresses.
var addressTable = []struct {
	prefix netip.Prefix
	class  Class
}{
	// Metadata services, which stand inside wider ranges or look public.
	{netip.MustParsePrefix("169.254.169.254/32"), ClassMetadata}, // AWS, Azure, Google, OpenStack and more
	{netip.MustParsePrefix("169.254.170.2/32"), ClassMetadata},   // AWS ECS task credentials
	{netip.MustParsePrefix("169.254.170.23/32"), ClassMetadata},  // AWS EKS pod identity
	{netip.MustParsePrefix("fd00:ec2::/32"), ClassMetadata},      // AWS, all of its services by IPv6
	{netip.MustParsePrefix("fd20:ce::254/128"), ClassMetadata},   // Google
	{netip.MustParsePrefix("100.100.100.200/32"), ClassMetadata}, // Alibaba
	{netip.MustParsePrefix("168.63.129.16/32"), ClassMetadata},   // Azure WireServer
	{netip.MustParsePrefix("192.0.0.192/32"), ClassMetadata},     // Oracle, old

	{netip.MustParsePrefix("0.0.0.0/32"), ClassUnspecified},        // RFC 1122
	{netip.MustParsePrefix("0.0.0.0/8"), ClassReserved},            // RFC 791
	{netip.MustParsePrefix("127.0.0.0/8"), ClassLoopback},          // RFC 1122
	{netip.MustParsePrefix("10.0.0.0/8"), ClassPrivate},            // RFC 1918
	{netip.MustParsePrefix("172.16.0.0/12"), ClassPrivate},         // RFC 1918
	{netip.MustParsePrefix("192.168.0.0/16"), ClassPrivate},        // RFC 1918
	{netip.MustParsePrefix("100.64.0.0/10"), ClassCGNAT},           // RFC 6598
	{netip.MustParsePrefix("169.254.0.0/16"), ClassLinkLocal},      // RFC 3927
	{netip.MustParsePrefix("192.0.0.0/24"), ClassReserved},         // RFC 6890
	{netip.MustParsePrefix("192.0.2.0/24"), ClassDocumentation},    // RFC 5737
	{netip.MustParsePrefix("198.51.100.0/24"), ClassDocumentation}, // RFC 5737
	{netip.MustParsePrefix("203.0.113.0/24"), ClassDocumentation},  // RFC 5737
	{netip.MustParsePrefix("192.88.99.0/24"), Class6to4},           // RFC 7526, relay anycast
	{netip.MustParsePrefix("198.18.0.0/15"), ClassBenchmark},       // RFC 2544
	{netip.MustParsePrefix("224.0.0.0/4"), ClassMulticast},         // RFC 5771
	{netip.MustParsePrefix("240.0.0.0/4"), ClassReserved},          // RFC 1112, with the limited broadcast of RFC 8190
	{netip.MustParsePrefix("0.0.0.0/0"), ClassPublic},

	{netip.MustParsePrefix("::/128"), ClassUnspecified},          // RFC 4291
	{netip.MustParsePrefix("::1/128"), ClassLoopback},            // RFC 4291
	{netip.MustParsePrefix("64:ff9b::/96"), ClassNAT64},          // RFC 6052
	{netip.MustParsePrefix("64:ff9b:1::/48"), ClassNAT64},        // RFC 8215
	{netip.MustParsePrefix("2001::/32"), ClassTeredo},            // RFC 4380
	{netip.MustParsePrefix("2001:2::/48"), ClassBenchmark},       // RFC 5180
	{netip.MustParsePrefix("2001:db8::/32"), ClassDocumentation}, // RFC 3849
	{netip.MustParsePrefix("3fff::/20"), ClassDocumentation},     // RFC 9637
	{netip.MustParsePrefix("2001::/23"), ClassReserved},          // RFC 2928
	{netip.MustParsePrefix("2002::/16"), Class6to4},              // RFC 3056
	{netip.MustParsePrefix("fc00::/7"), ClassULA},                // RFC 4193
	{netip.MustParsePrefix("fe80::/10"), ClassLinkLocal},         // RFC 4291
	{netip.MustParsePrefix("ff00::/8"), ClassMulticast},          // RFC 4291
	{netip.MustParsePrefix("2000::/3"), ClassPublic},             // RFC 4291, all that is given out
	{netip.MustParsePrefix("::/0"), ClassReserved},               // with fec0::/10, 100::/64 and 5f00::/16
}

// ClassifyAddr returns what addr is for. An IPv4-mapped address is the IPv4 address that it holds. An IPv4-compatible one
// (RFC 4291 section 2.5.5.1, deprecated) is judged by the address that it holds too, but is at best reserved.
func ClassifyAddr(addr netip.Addr) Class {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.Zone() != "" {
		return ClassInvalid
	}
	for _, row := range addressTable {
		if !row.prefix.Contains(addr) {
			continue
		}
		if row.class == ClassReserved && compatible.Contains(addr) {
			if class := ClassifyAddr(lastIPv4(addr)); class != ClassPublic {
				return class
			}
		}
		return row.class
	}
	return ClassInvalid
}

var (
	compatible = netip.MustParsePrefix("::/96")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
)

// lastIPv4 returns the IPv4 address in the last four bytes of an IPv6 address.
func lastIPv4(addr netip.Addr) netip.Addr {
	b := addr.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// dialable reports whether an address may be dialled, networks being what is allowed beyond the public ones. No setting opens
// metadata services, and behind a NAT64 prefix the IPv4 address counts as well.
func dialable(addr netip.Addr, networks []netip.Prefix) bool {
	addr = addr.Unmap()
	listed := slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
	switch ClassifyAddr(addr) {
	case ClassPublic:
		return true
	case ClassInvalid, ClassUnspecified, ClassMulticast, ClassMetadata:
		return false
	case ClassNAT64:
		return listed && (!nat64.Contains(addr) || dialable(lastIPv4(addr), networks))
	default:
		return listed
	}
}

// Resolver looks up a host's addresses; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer makes connections to upstreams. It judges every address of a DNS answer and dials one of exactly those addresses, so
// that a second answer cannot lead elsewhere. The zero Dialer resolves with the system's resolver and dials public addresses
// only. It knows no proxies. It is safe for concurrent use.
type Dialer struct {
	// Resolver is the system's if nil.
	Resolver Resolver
	// Upstreams that may be elsewhere than at public addresses.
	Upstreams []Upstream
	// Own addresses, above all the proxy's listeners, are never dialled; see OwnAddresses.
	Own []netip.AddrPort
	// ResolveTimeout bounds a lookup; 10 s if 0. ConnectTimeout bounds the try of one address; 10 s if 0.
	ResolveTimeout, ConnectTimeout time.Duration
}

// maxTries bounds how many addresses of one host are tried.
const maxTries = 4

// DialContext connects to address, a normalised host and a port. Its errors have the codes upstream_unresolvable,
// egress_address_denied and upstream_unreachable; after each of them nothing has been sent.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := parseAuthority(address)
	if err != nil {
		return nil, err
	}
	upstream, _ := findUpstream(d.Upstreams, host, port)
	addrs, at := []netip.Addr{upstream.Address.Addr()}, cmp.Or(upstream.Address.Port(), port)
	if !upstream.Address.Addr().IsValid() {
		if addrs, err = d.resolve(ctx, host); err != nil {
			return nil, err
		}
	}
	for _, addr := range addrs {
		if !dialable(addr, upstream.Networks) {
			return nil, evidence.Refuse("egress_address_denied", "%s has an address that may not be dialled (%s)", host, ClassifyAddr(addr))
		}
		if d.isOwn(netip.AddrPortFrom(addr.Unmap(), at)) {
			return nil, evidence.Refuse("egress_address_denied", "%s is an address of the mediator itself", host)
		}
	}
	dialer := net.Dialer{Timeout: orDefault(d.ConnectTimeout, 10*time.Second)}
	for _, addr := range addrs[:min(len(addrs), maxTries)] {
		conn, err := dialer.DialContext(ctx, network, netip.AddrPortFrom(addr.Unmap(), at).String())
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return nil, evidence.Refuse("upstream_unreachable", "no connection to %s, port %d", host, port)
}

// checkDestination refuses an address that the target's name does not have.
func (d *Dialer) checkDestination(ctx context.Context, t Target, dialled netip.Addr) error {
	upstream, _ := findUpstream(d.Upstreams, t.Host, t.Port)
	if upstream.Address.Addr() == dialled {
		return nil
	}
	addrs, err := d.resolve(ctx, t.Host)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Unmap() == dialled }) {
		return evidence.Refuse("destination_mismatch", "the connection was made to %s, which is no address of %s", dialled, t.Host)
	}
	return nil
}

func (d *Dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	var resolver Resolver = &net.Resolver{}
	if d.Resolver != nil {
		resolver = d.Resolver
	}
	lookup, cancel := context.WithTimeout(ctx, orDefault(d.ResolveTimeout, 10*time.Second))
	defer cancel()
	addrs, err := resolver.LookupNetIP(lookup, "ip", host)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil || len(addrs) == 0: // the cause names the resolver's address
		return nil, evidence.Refuse("upstream_unresolvable", "the name %s could not be resolved", host)
	}
	return addrs, nil
}

func (d *Dialer) isOwn(to netip.AddrPort) bool {
	return slices.ContainsFunc(d.Own, func(own netip.AddrPort) bool {
		wild := own.Addr().IsUnspecified() && to.Addr().IsLoopback()
		return own.Port() == to.Port() && (wild || own.Addr().Unmap() == to.Addr())
	})
}

// OwnAddresses returns the addresses by which listeners can be reached from this machine: a listener on an unspecified address
// by every address of its interfaces. For Dialer.Own.
func OwnAddresses(listeners ...net.Addr) ([]netip.AddrPort, error) {
	var own []netip.AddrPort
	for _, l := range listeners {
		at, err := netip.ParseAddrPort(l.String())
		if err != nil {
			return nil, fmt.Errorf("proxy: listener address %s: %w", l, err)
		}
		own = append(own, at)
		if !at.Addr().IsUnspecified() {
			continue
		}
		interfaces, err := net.InterfaceAddrs()
		if err != nil {
			return nil, fmt.Errorf("proxy: addresses of this machine: %w", err)
		}
		for _, i := range interfaces {
			if prefix, err := netip.ParsePrefix(i.String()); err == nil {
				own = append(own, netip.AddrPortFrom(prefix.Addr(), at.Port()))
			}
		}
	}
	return own, nil
}
