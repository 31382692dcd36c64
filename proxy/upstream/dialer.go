package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// Resolver looks up a host's addresses. *net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer connects to upstreams. It judges every address of one DNS answer and dials one of exactly those, so that a
// second answer cannot lead elsewhere. The zero Dialer uses the system's resolver and dials public addresses only. It
// uses no proxy. It is safe for concurrent use.
type Dialer struct {
	// Resolver is the system's if nil.
	Resolver Resolver
	// Hosts that may have other than public addresses.
	Hosts []Host
	// Own addresses, such as the proxy's listeners, are never dialled; see OwnAddresses.
	Own []netip.AddrPort
}

const (
	resolveTimeout = 10 * time.Second
	connectTimeout = 10 * time.Second // per address
	maxTries       = 4                // addresses of one host
)

// DialContext connects to address, a normalised host and a port. Its errors have the codes upstream_unresolvable,
// egress_address_denied and upstream_unreachable; nothing was sent then.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := ParseAuthority(address)
	if err != nil {
		return nil, err
	}
	upstream, _ := findHost(d.Hosts, host, port)
	addrs, at := []netip.Addr{upstream.Address.Addr()}, cmp.Or(upstream.Address.Port(), port)
	if !upstream.Address.Addr().IsValid() {
		if addrs, err = d.resolve(ctx, host); err != nil {
			return nil, err
		}
	}
	for _, addr := range addrs {
		if !dialable(addr, upstream.Networks) {
			return nil, refusal.New("egress_address_denied",
				"%s has an address that may not be dialled", host).ForOperator("of the class %s", classifyAddr(addr))
		}
		if d.isOwn(netip.AddrPortFrom(addr.Unmap(), at)) {
			return nil, refusal.New("egress_address_denied", "%s has an address that may not be dialled",
				host).ForOperator("one of the mediator itself")
		}
	}
	dialer := net.Dialer{Timeout: connectTimeout}
	var last error
	for _, addr := range addrs[:min(len(addrs), maxTries)] {
		conn, err := dialer.DialContext(ctx, network, netip.AddrPortFrom(addr.Unmap(), at).String())
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		last = err
	}
	return nil, refusal.New("upstream_unreachable", "no connection to %s, port %d: %s", host, port, whyUnreachable(last))
}

// whyUnreachable gives the reason without the address, which the agent must not see.
func whyUnreachable(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return "this machine does not let the mediator connect there"
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no answer within %s", connectTimeout)
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		return number.Error() // a fixed set of texts
	}
	return "the connection failed"
}

// CheckDestination refuses an address that the target's name does not have.
func (d *Dialer) CheckDestination(ctx context.Context, t Target, dialled netip.Addr) error {
	upstream, _ := findHost(d.Hosts, t.Host, t.Port)
	if upstream.Address.Addr() == dialled {
		return nil
	}
	addrs, err := d.resolve(ctx, t.Host)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Unmap() == dialled }) {
		return refusal.New("target_mismatch",
			"the connection was made to %s, which is not an address of %s", dialled, t.Host)
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
	lookup, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	addrs, err := resolver.LookupNetIP(lookup, "ip", host)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil || len(addrs) == 0: // the cause names the resolver
		return nil, refusal.New("upstream_unresolvable", "the name %s could not be resolved", host)
	}
	return addrs, nil
}

func (d *Dialer) isOwn(to netip.AddrPort) bool {
	return slices.ContainsFunc(d.Own, func(own netip.AddrPort) bool {
		wild := own.Addr().IsUnspecified() && to.Addr().IsLoopback()
		return own.Port() == to.Port() && (wild || own.Addr().Unmap() == to.Addr())
	})
}

// OwnAddresses returns the addresses by which this machine reaches its listeners, for Dialer.Own. A listener on an
// unspecified address is reached by every address of the machine's interfaces.
func OwnAddresses(listeners ...net.Addr) ([]netip.AddrPort, error) {
	var own []netip.AddrPort
	for _, l := range listeners {
		at, err := netip.ParseAddrPort(l.String())
		if err != nil {
			return nil, fmt.Errorf("upstream: listener address %s: %w", l, err)
		}
		own = append(own, at)
		if !at.Addr().IsUnspecified() {
			continue
		}
		interfaces, err := net.InterfaceAddrs()
		if err != nil {
			return nil, fmt.Errorf("upstream: addresses of this machine: %w", err)
		}
		for _, i := range interfaces {
			if prefix, err := netip.ParsePrefix(i.String()); err == nil {
				own = append(own, netip.AddrPortFrom(prefix.Addr(), at.Port()))
			}
		}
	}
	return own, nil
}
