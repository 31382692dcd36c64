package upstream

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/actionproof/mediator/internal/refusal"
)

// Target is a request's destination in one normal form, so that two spellings are equal. Host is lower-case ASCII (IDNA
// A-labels) without a trailing dot, or an IP address as netip prints it, without brackets. Only ParseConnect and
// ParseOrigin make a Target from a client's text. The zero Target is no destination.
type Target struct {
	Scheme string // "https" or "http"
	Host   string
	Port   uint16 // never 0
}

// Authority returns host and port as in a Host header, without the scheme's default port (RFC 9110 section 7.2).
func (t Target) Authority() string {
	if t.Port != defaultPort(t.Scheme) {
		return t.Address()
	}
	if strings.Contains(t.Host, ":") {
		return "[" + t.Host + "]"
	}
	return t.Host
}

// Address returns host and port for a dialer.
func (t Target) Address() string {
	return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port)))
}

// IP returns the address of an IP literal.
func (t Target) IP() (netip.Addr, bool) {
	addr, err := netip.ParseAddr(t.Host)
	return addr, err == nil
}

// String returns the origin, scheme://authority.
func (t Target) String() string { return t.Scheme + "://" + t.Authority() }

// ParseConnect reads a CONNECT's target (RFC 9110 section 9.3.6): host and port, both required. The scheme is https;
// the tunnel's first byte may still change it to http. Every refusal is request_malformed.
func ParseConnect(authority string) (Target, error) {
	host, port, err := ParseAuthority(authority)
	if err != nil {
		return Target{}, err
	}
	if port == 0 {
		return Target{}, refusal.New("request_malformed", "the CONNECT target %.300q names no port", authority)
	}
	return Target{Scheme: "https", Host: host, Port: port}, nil
}

// ParseOrigin reads an authority of a scheme, whose default port it may omit. Every refusal is request_malformed.
func ParseOrigin(scheme, authority string) (Target, error) {
	host, port, err := ParseAuthority(authority)
	if err != nil {
		return Target{}, err
	}
	if port == 0 {
		port = defaultPort(scheme)
	}
	if port == 0 {
		return Target{}, refusal.New("request_malformed", "the scheme %.20q is neither http nor https", scheme)
	}
	return Target{Scheme: strings.Clone(scheme), Host: strings.Clone(host), Port: port}, nil // kept longer than the URL
}

// defaultPort returns 0 for a scheme other than http and https.
func defaultPort(scheme string) uint16 {
	switch scheme {
	case "https":
		return 443
	case "http":
		return 80
	}
	return 0
}

// ParseAuthority splits host[:port] (RFC 3986 section 3.2, without userinfo) and normalises the host. Port 0 means
// none.
func ParseAuthority(s string) (host string, port uint16, err error) {
	invalid := func(why string) (string, uint16, error) {
		return "", 0, refusal.New("request_malformed", "the target %.300q %s", s, why)
	}
	if len(s) > 300 {
		return invalid("is too long")
	}
	if strings.Contains(s, "@") {
		return invalid("has user information")
	}
	var rawPort string
	var hasPort bool
	if rest, ok := strings.CutPrefix(s, "["); ok {
		literal, after, closed := strings.Cut(rest, "]")
		if !closed {
			return invalid("has an opening bracket only")
		}
		addr, err := netip.ParseAddr(literal)
		// A zone would pick an interface of this machine. An IPv4-mapped address is a second spelling of an IPv4
		// address.
		if err != nil || !addr.Is6() || addr.Is4In6() || addr.Zone() != "" {
			return invalid("is not a plain IPv6 address")
		}
		host = addr.String()
		if rawPort, hasPort = strings.CutPrefix(after, ":"); !hasPort && after != "" {
			return invalid("has text after the bracket")
		}
	} else {
		host, rawPort, hasPort = strings.Cut(s, ":")
		if host = NormalHost(host); host == "" {
			return invalid("has no valid host: a domain name, a dotted IPv4 address or a bracketed IPv6 address")
		}
	}
	if !hasPort {
		return host, 0, nil
	}
	n, err := strconv.ParseUint(rawPort, 10, 16)
	if err != nil || n == 0 || rawPort[0] == '0' || rawPort[0] == '+' {
		return invalid("has no valid port")
	}
	return host, uint16(n), nil
}

// NormalHost returns the normal form of a domain name or IPv4 address, or "".
func NormalHost(s string) string {
	host := strings.ToLower(s)
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) || strings.Contains(host, "xn--") {
		// Only here: the Lookup profile forbids the underscore, which real hosts have, and accepts broken UTF-8.
		var err error
		if host, err = idna.Lookup.ToASCII(s); err != nil || !utf8.ValidString(s) {
			return ""
		}
	}
	host = strings.TrimSuffix(host, ".") // after IDNA, which maps other full stops to "."
	if host == "" || len(host) > 253 {
		return ""
	}
	var last string
	for label := range strings.SplitSeq(host, ".") {
		if !validLabel(label) {
			return ""
		}
		last = label
	}
	// A resolver takes a name that ends in a number for an IPv4 address in any form of inet_aton: 127.1, 0x7f.1,
	// 017700000001, 2130706433. Only four decimal numbers without leading zeros have one reading everywhere.
	if isNumeric(last) {
		addr, err := netip.ParseAddr(host)
		if err != nil || !addr.Is4() {
			return ""
		}
	}
	return host
}

// validLabel takes letters, digits, underscores and inner hyphens (RFC 1123 section 2.1, RFC 8552).
func validLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
}

func isNumeric(label string) bool {
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		label, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}
