package proxy

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Upstream is what is known about one host, or the subdomains of one, beyond that it is on the Internet.
type Upstream struct {
	// Host is a host name or an IP address, or "*." and a domain for its subdomains.
	Host string
	// Port is any if 0.
	Port uint16
	// Address is dialled in place of what the name resolves to, if it is valid, on the call's own port if its port is 0. It has to be
	// one that may be dialled.
	Address netip.AddrPort
	// Networks are the prefixes that the host's addresses may be in besides the public ones.
	Networks []netip.Prefix
	// RootCAs verify the host's certificate in place of the default roots; nil leaves those.
	RootCAs *x509.CertPool
	// ServerName is sent as SNI and verified in the certificate; the host itself if empty.
	ServerName string
}

// findUpstream returns the first entry for host and port.
func findUpstream(list []Upstream, host string, port uint16) (Upstream, int) {
	i := slices.IndexFunc(list, func(u Upstream) bool {
		if u.Port != 0 && u.Port != port {
			return false
		}
		if domain, ok := strings.CutPrefix(u.Host, "*."); ok {
			return strings.HasSuffix(host, "."+domain)
		}
		return u.Host == host
	})
	if i < 0 {
		return Upstream{}, i
	}
	return list[i], i
}

// checkUpstreams normalises the hosts of a list and refuses what would never match or match too much.
func checkUpstreams(list []Upstream) ([]Upstream, error) {
	list = slices.Clone(list)
	for i, u := range list {
		domain, wild := strings.CutPrefix(u.Host, "*.")
		host, port, err := parseAuthority(domain)
		if addr, aerr := netip.ParseAddr(u.Host); aerr == nil && addr.Zone() == "" {
			host, port, err = addr.Unmap().String(), 0, nil
		}
		if err != nil || port != 0 {
			return nil, fmt.Errorf("proxy: upstream %q is neither a host nor *. and a domain", u.Host)
		}
		if list[i].Host = host; wild {
			list[i].Host = "*." + host
		}
		for _, p := range u.Networks {
			if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() {
				return nil, fmt.Errorf("proxy: upstream %q: %s is no network", u.Host, p)
			}
		}
	}
	return list, nil
}
