package upstream

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"
)

// Host is the configuration of one host.
type Host struct {
	Name string // normalised
	Port uint16 // any if 0
	// Address, if valid, is dialled in place of the resolved one, at the call's port if its own is 0. It must be
	// dialable.
	Address netip.AddrPort
	// Networks may contain the host's addresses, beside the public ones.
	Networks []netip.Prefix
	// RootCAs verify the certificate in place of the default roots, if set.
	RootCAs *x509.CertPool
}

// CheckAddress refuses an Address to which every call would be refused.
func (h *Host) CheckAddress() error {
	if h.Address.IsValid() && !dialable(h.Address.Addr(), h.Networks) {
		return fmt.Errorf("%s is not public (class %s): list its range in networks, unless it is that of a metadata service",
			h.Address.Addr(), classifyAddr(h.Address.Addr()))
	}
	return nil
}

func findHost(list []Host, host string, port uint16) (Host, int) {
	i := slices.IndexFunc(list, func(u Host) bool { return u.Name == host && (u.Port == 0 || u.Port == port) })
	if i < 0 {
		return Host{}, i
	}
	return list[i], i
}
