package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Via says how a call reaches its host where there is an upstream proxy. A rule can demand ViaDirect or ViaProxy; empty
// leaves the choice to [Proxy.Except].
type Via string

// The ways to a host.
const (
	ViaDirect         Via = "direct"
	ViaProxy          Via = "proxy"           // the mediator resolved the host's name
	ViaResolvingProxy Via = "resolving-proxy" // the proxy resolved it
)

type viaKey struct{}

// WithVia returns a context for requests that must go this way.
func WithVia(ctx context.Context, v Via) context.Context { return context.WithValue(ctx, viaKey{}, v) }

func viaOf(ctx context.Context) Via {
	v, _ := ctx.Value(viaKey{}).(Via)
	return v
}

// ViaOf returns the way of a connection that a [Transport] has made; empty without an upstream proxy.
func ViaOf(c net.Conn) Via {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	made, _ := c.(counted)
	return made.via
}

// Exceptions are destinations that calls reach directly, without the upstream proxy.
type Exceptions []exception

type exception struct {
	all     bool
	name    string // of a host
	below   bool   // only hosts below name
	network netip.Prefix
	port    uint16 // any if 0
}

// ParseExceptions reads a list in the words of NO_PROXY: *, a network (10.0.0.0/8), an IP address, or a host. A
// host includes all hosts below it; with a dot before it, only those. A port can follow an address or host.
func ParseExceptions(words []string) (Exceptions, error) {
	var all Exceptions
	for _, word := range words {
		if word == "*" {
			all = append(all, exception{all: true})
			continue
		}
		if network, err := netip.ParsePrefix(word); err == nil && !network.Addr().Is4In6() {
			all = append(all, exception{network: network.Masked()})
			continue
		}
		authority, below := strings.CutPrefix(strings.TrimPrefix(word, "*"), ".")
		if addr, err := netip.ParseAddr(word); err == nil && addr.Is6() {
			authority = "[" + word + "]"
		}
		host, port, err := ParseAuthority(authority)
		if err != nil || strings.HasPrefix(word, "*") && !below {
			return nil, fmt.Errorf("%.300q is none of *, host, .domain, IP address (all perhaps with "+
				":port) and network (10.0.0.0/8)", word)
		}
		e := exception{name: host, below: below, port: port}
		if addr, err := netip.ParseAddr(host); err == nil {
			e = exception{network: netip.PrefixFrom(addr, addr.BitLen()), port: port}
		}
		all = append(all, e)
	}
	return all, nil
}

// has judges a host by its name, or by its address if host is one.
func (x Exceptions) has(host string, port uint16) bool {
	addr, err := netip.ParseAddr(host)
	return slices.ContainsFunc(x, func(e exception) bool {
		switch {
		case e.port != 0 && e.port != port:
			return false
		case err == nil || e.all || e.network.IsValid():
			return e.all || e.network.Contains(addr)
		}
		return host == e.name && !e.below || strings.HasSuffix(host, "."+e.name)
	})
}

// isPublicName reports whether public DNS can have the name. Its top-level domain is then on the public suffix list,
// which lacks localhost, local, internal, svc and other names of private networks.
func isPublicName(host string) bool {
	suffix, icann := publicsuffix.PublicSuffix(host)
	return strings.Contains(host, ".") && (icann || strings.Contains(suffix, ".")) && !strings.HasSuffix(host, ".arpa")
}
