package upstream

import (
	"net/netip"
	"slices"
)

type class string

// Only classPublic may be dialled without a Host's Networks.
const (
	classInvalid       class = "invalid" // no address
	classPublic        class = "public"
	classUnspecified   class = "unspecified"
	classLoopback      class = "loopback"
	classPrivate       class = "private"      // RFC 1918
	classULA           class = "unique local" // IPv6's private
	classLinkLocal     class = "link-local"
	classCGNAT         class = "shared (CGNAT)"
	classMulticast     class = "multicast"
	classBenchmark     class = "benchmark"
	classDocumentation class = "documentation"
	classNAT64         class = "NAT64"
	class6to4          class = "6to4"
	classTeredo        class = "Teredo"
	classReserved      class = "reserved"
	classMetadata      class = "metadata" // hands out cloud credentials
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// addressTable is searched from the top. It follows IANA's special-purpose address registries.
var addressTable = []struct {
	prefix netip.Prefix
	class  class
}{
	// Metadata services, which lie inside wider ranges or look public.
	{prefix("169.254.169.254/32"), classMetadata}, // AWS, Azure, Google, OpenStack and more
	{prefix("169.254.170.2/32"), classMetadata},   // AWS ECS task credentials
	{prefix("169.254.170.23/32"), classMetadata},  // AWS EKS pod identity
	{prefix("fd00:ec2::/32"), classMetadata},      // AWS, all services over IPv6
	{prefix("fd20:ce::254/128"), classMetadata},   // Google
	{prefix("100.100.100.200/32"), classMetadata}, // Alibaba
	{prefix("168.63.129.16/32"), classMetadata},   // Azure WireServer
	{prefix("192.0.0.192/32"), classMetadata},     // Oracle, old

	{prefix("0.0.0.0/32"), classUnspecified},        // RFC 1122
	{prefix("0.0.0.0/8"), classReserved},            // RFC 791
	{prefix("127.0.0.0/8"), classLoopback},          // RFC 1122
	{prefix("10.0.0.0/8"), classPrivate},            // RFC 1918
	{prefix("172.16.0.0/12"), classPrivate},         // RFC 1918
	{prefix("192.168.0.0/16"), classPrivate},        // RFC 1918
	{prefix("100.64.0.0/10"), classCGNAT},           // RFC 6598
	{prefix("169.254.0.0/16"), classLinkLocal},      // RFC 3927
	{prefix("192.0.0.0/24"), classReserved},         // RFC 6890
	{prefix("192.0.2.0/24"), classDocumentation},    // RFC 5737
	{prefix("198.51.100.0/24"), classDocumentation}, // RFC 5737
	{prefix("203.0.113.0/24"), classDocumentation},  // RFC 5737
	{prefix("192.88.99.0/24"), class6to4},           // RFC 7526, relay anycast
	{prefix("198.18.0.0/15"), classBenchmark},       // RFC 2544
	{prefix("224.0.0.0/4"), classMulticast},         // RFC 5771
	{prefix("240.0.0.0/4"), classReserved},          // RFC 1112, with the limited broadcast of RFC 8190
	{prefix("0.0.0.0/0"), classPublic},

	{prefix("::/128"), classUnspecified},          // RFC 4291
	{prefix("::1/128"), classLoopback},            // RFC 4291
	{prefix("64:ff9b::/96"), classNAT64},          // RFC 6052
	{prefix("64:ff9b:1::/48"), classNAT64},        // RFC 8215
	{prefix("2001::/32"), classTeredo},            // RFC 4380
	{prefix("2001:2::/48"), classBenchmark},       // RFC 5180
	{prefix("2001:db8::/32"), classDocumentation}, // RFC 3849
	{prefix("3fff::/20"), classDocumentation},     // RFC 9637
	{prefix("2001::/23"), classReserved},          // RFC 2928
	{prefix("2002::/16"), class6to4},              // RFC 3056
	{prefix("fc00::/7"), classULA},                // RFC 4193
	{prefix("fe80::/10"), classLinkLocal},         // RFC 4291
	{prefix("ff00::/8"), classMulticast},          // RFC 4291
	{prefix("2000::/3"), classPublic},             // RFC 4291, all that is assigned
	{prefix("::/0"), classReserved},               // with fec0::/10, 100::/64 and 5f00::/16
}

// classifyAddr returns addr's class. An IPv4-mapped address counts as its IPv4 address. So does an IPv4-compatible one
// (RFC 4291 section 2.5.5.1, deprecated), but it is never better than reserved.
func classifyAddr(addr netip.Addr) class {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.Zone() != "" {
		return classInvalid
	}
	for _, row := range addressTable {
		if !row.prefix.Contains(addr) {
			continue
		}
		if row.class == classReserved && compatible.Contains(addr) {
			if class := classifyAddr(lastIPv4(addr)); class != classPublic {
				return class
			}
		}
		return row.class
	}
	return classInvalid
}

var (
	compatible = prefix("::/96")
	nat64      = prefix("64:ff9b::/96")
)

// lastIPv4 returns the IPv4 address in the last four bytes of an IPv6 address.
func lastIPv4(addr netip.Addr) netip.Addr {
	b := addr.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// dialable reports whether an address may be dialled; networks are allowed beyond the public ones. Nothing opens
// metadata services. Behind a NAT64 prefix the IPv4 address must be dialable too.
func dialable(addr netip.Addr, networks []netip.Prefix) bool {
	addr = addr.Unmap()
	listed := slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
	switch classifyAddr(addr) {
	case classPublic:
		return true
	case classInvalid, classUnspecified, classMulticast, classMetadata:
		return false
	case classNAT64:
		return listed && (!nat64.Contains(addr) || dialable(lastIPv4(addr), networks))
	default:
		return listed
	}
}
