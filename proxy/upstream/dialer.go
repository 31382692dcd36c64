package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// Resolver looks up a host's addresses. *net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// absoluteFirst looks up a host by exactly its name. It tries the search domains of resolv.conf only for a name without
// a dot, or one that no server finds. In a pod, trying them first costs six more queries, and any Service that they find
// would take the host's place.
type absoluteFirst struct{ Resolver }

// LookupNetIP implements [Resolver].
func (r absoluteFirst) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if !strings.Contains(host, ".") {
		return r.Resolver.LookupNetIP(ctx, network, host)
	}
	addrs, err := r.Resolver.LookupNetIP(ctx, network, host+".")
	if failed := new(net.DNSError); errors.As(err, &failed) && !failed.IsTimeout {
		return r.Resolver.LookupNetIP(ctx, network, host)
	}
	return addrs, err
}

// Dialer connects to upstreams. It judges every address of one DNS answer and dials one of exactly those, or names it
// to the proxy, so that a second answer cannot lead elsewhere. The zero Dialer uses the system's resolver, dials public
// addresses only, and uses no proxy. It is safe for concurrent use.
type Dialer struct {
	// Resolver is the system's if nil.
	Resolver Resolver
	// Hosts that may have other than public addresses.
	Hosts []Host
	// Own addresses, such as the proxy's listeners, are never dialled; see OwnAddresses.
	Own []netip.AddrPort
	// Proxy, if set, carries the connections. It is never dialled as a host.
	Proxy *Proxy
}

const (
	resolveTimeout = 10 * time.Second
	connectTimeout = 10 * time.Second // per address
	maxTries       = 4                // addresses of one host
)

// DialContext connects to address, a normalised host and a port. Its errors have the codes upstream_unresolvable,
// egress_address_denied and upstream_unreachable, and those of [Proxy]; nothing was sent then.
func (d *Dialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	c, _, err := d.dial(ctx, address)
	return c, err
}

func (d *Dialer) dial(ctx context.Context, address string) (stream, Via, error) {
	host, port, err := ParseAuthority(address)
	if err != nil {
		return nil, "", err
	}
	upstream, _ := findHost(d.Hosts, host, port)
	asked := viaOf(ctx)
	proxied := d.Proxy.Carries(asked, host, port)
	addrs, at := []netip.Addr{upstream.Address.Addr()}, cmp.Or(upstream.Address.Port(), port)
	if !upstream.Address.Addr().IsValid() {
		if _, literal := (Target{Host: host}).IP(); proxied && d.Proxy.Resolves && !literal {
			return d.dialName(ctx, host, port, len(upstream.Networks) > 0)
		}
		if addrs, err = d.resolve(ctx, host); err != nil {
			return nil, "", err
		}
	}
	all, err := d.judge(ctx, host, addrs, at, upstream.Networks)
	if err != nil {
		return nil, "", err
	}
	dialer := net.Dialer{Timeout: connectTimeout}
	var last error
	for _, to := range all[:min(len(all), maxTries)] {
		if proxied && (asked == ViaProxy || !d.Proxy.Except.has(to.Addr().String(), at)) {
			c, err := d.tunnel(ctx, to.String())
			if err == nil || !errors.As(err, new(notConnected)) {
				return c, ViaProxy, err
			}
			last = err
			continue
		}
		conn, err := dialer.DialContext(ctx, "tcp", to.String())
		if err == nil && d.Proxy == nil {
			return conn.(*net.TCPConn), "", nil
		} else if err == nil {
			return conn.(*net.TCPConn), ViaDirect, nil
		}
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		last = err
	}
	return nil, "", unreachable(host, port, last).ForOperator("at %v", all[:min(len(all), maxTries)])
}

// judge refuses a host if any of its addresses may not be dialled.
func (d *Dialer) judge(ctx context.Context, host string, addrs []netip.Addr, at uint16, networks []netip.Prefix) (
	all []netip.AddrPort, err error) {
	var proxy []netip.AddrPort
	if d.Proxy != nil && d.Proxy.Port == at {
		if proxy, err = d.proxyAddresses(ctx); err != nil {
			return nil, err
		}
	}
	for _, addr := range addrs {
		to := netip.AddrPortFrom(addr.Unmap(), at)
		denied := refusal.New("egress_address_denied", "%s has an address that may not be dialled", host)
		switch {
		case !dialable(addr, networks):
			return nil, denied.ForOperator("of the class %s", classifyAddr(addr))
		case d.isOwn(to):
			return nil, denied.ForOperator("one of the mediator itself")
		case slices.Contains(proxy, to):
			return nil, denied.ForOperator("that of the upstream proxy")
		}
		all = append(all, to)
	}
	return all, nil
}

// dialName has the proxy resolve a host's name. listed hosts may have names of private networks.
func (d *Dialer) dialName(ctx context.Context, host string, port uint16, listed bool) (stream, Via, error) {
	own := host == d.Proxy.Host && port == d.Proxy.Port
	if own || !listed && !isPublicName(host) {
		return nil, "", refusal.New("egress_address_denied",
			"%s is not a name of public DNS, or is the upstream proxy's", host)
	}
	c, err := d.tunnel(ctx, net.JoinHostPort(host, strconv.Itoa(int(port))))
	if errors.As(err, new(notConnected)) {
		err = unreachable(host, port, err)
	}
	return c, ViaResolvingProxy, err
}

func unreachable(host string, port uint16, why error) *refusal.Refusal {
	return refusal.New("upstream_unreachable", "no connection to %s, port %d: %s", host, port, whyUnreachable(why))
}

// whyUnreachable gives the reason without the address, which the agent must not see.
func whyUnreachable(err error) string {
	var timeout net.Error
	var byProxy notConnected
	switch {
	case errors.As(err, &byProxy):
		return byProxy.Error()
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

func (d *Dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	var resolver Resolver = absoluteFirst{&net.Resolver{}}
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
