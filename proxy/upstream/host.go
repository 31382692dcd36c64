package upstream

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Upstream is what is known about one host, or the subdomains of one, beyond that it is on the Internet.
type Host struct {
	// Host is a host name or an IP address, or "*." and a domain for its subdomains.
	Name string
	// Port is any if 0.
	Port uint16
	// Address is dialled in place of what the name resolves to, if it is valid, on the call's own port if its port is 0.
	// It has to be one that may be dialled.
	Address netip.AddrPort
	// Networks are the prefixes that the host's addresses may be in besides the public ones.
	Networks []netip.Prefix
	// RootCAs verify the host's certificate in place of the default roots; nil leaves those.
	RootCAs *x509.CertPool
	// ServerName is sent as SNI and verified in the certificate; the host itself if empty.
	ServerName string
}

// findUpstream returns the first entry for host and port.
func findHost(list []Host, host string, port uint16) (Host, int) {
	i := slices.IndexFunc(list, func(u Host) bool {
		if u.Port != 0 && u.Port != port {
			return false
		}
		if domain, ok := strings.CutPrefix(u.Name, "*."); ok {
			return strings.HasSuffix(host, "."+domain)
		}
		return u.Name == host
	})
	if i < 0 {
		return Host{}, i
	}
	return list[i], i
}

// checkUpstreams normalises the hosts of a list and refuses what would never match or match too much.
func checkHosts(list []Host) ([]Host, error) {
	list = slices.Clone(list)
	for i, u := range list {
		domain, wild := strings.CutPrefix(u.Name, "*.")
		host, port, err := ParseAuthority(domain)
		if addr, aerr := netip.ParseAddr(u.Name); aerr == nil && addr.Zone() == "" {
			host, port, err = addr.Unmap().String(), 0, nil
		}
		if err != nil || port != 0 {
			return nil, fmt.Errorf("upstream: upstream %q is neither a host nor *. and a domain", u.Name)
		}
		if list[i].Name = host; wild {
			list[i].Name = "*." + host
		}
		for _, p := range u.Networks {
			if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() {
				return nil, fmt.Errorf("upstream: upstream %q: %s is no network", u.Name, p)
			}
		}
	}
	return list, nil
}
