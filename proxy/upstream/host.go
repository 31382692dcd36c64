package upstream

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Host is the configuration of one host, or of a domain's subdomains.
type Host struct {
	// Name is a host name or an IP address, or "*." and a domain for its subdomains.
	Name string
	// Port is any if 0.
	Port uint16
	// Address, if valid, is dialled in place of the resolved one, at the call's port if its own is 0. It must be
	// dialable.
	Address netip.AddrPort
	// Networks may contain the host's addresses, beside the public ones.
	Networks []netip.Prefix
	// RootCAs verify the certificate in place of the default roots, if set.
	RootCAs *x509.CertPool
	// ServerName is the SNI and the name in the certificate; the host itself if empty.
	ServerName string
}

// findHost returns the first entry for host and port.
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

// checkHosts normalises hosts and refuses entries that match nothing or too much.
func checkHosts(list []Host) ([]Host, error) {
	list = slices.Clone(list)
	for i, u := range list {
		domain, wild := strings.CutPrefix(u.Name, "*.")
		host, port, err := ParseAuthority(domain)
		if addr, aerr := netip.ParseAddr(u.Name); aerr == nil && addr.Zone() == "" {
			host, port, err = addr.Unmap().String(), 0, nil
		}
		if err != nil || port != 0 {
			return nil, fmt.Errorf("upstream: %q is neither a host nor *. and a domain", u.Name)
		}
		if list[i].Name = host; wild {
			list[i].Name = "*." + host
		}
		for _, p := range u.Networks {
			if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() {
				return nil, fmt.Errorf("upstream: %q: %s is not a network", u.Name, p)
			}
		}
	}
	return list, nil
}
