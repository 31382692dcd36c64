package upstream

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

func TestClassifyAddr(t *testing.T) {
	for _, test := range []struct {
		about string
		class class
		addrs []string
	}{
		{"public", classPublic,
			[]string{"1.1.1.1", "8.8.8.8", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0", "192.0.1.0",
				"223.255.255.255", "2606:4700::1111", "2a00::1", "::ffff:8.8.8.8"}},
		{"RFC 1122", classLoopback, []string{"127.0.0.1", "127.255.255.254", "::ffff:127.0.0.1", "::127.0.0.1", "::1"}},
		{"RFC 1122, this host", classUnspecified, []string{"0.0.0.0", "::", "::ffff:0.0.0.0"}},
		{"RFC 791, this network", classReserved, []string{"0.0.0.1", "0.255.255.255"}},
		{"RFC 1918", classPrivate,
			[]string{"10.0.0.0", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "::ffff:10.0.0.1",
				"::10.0.0.1"}},
		{"RFC 4193", classULA, []string{"fc00::1", "fdff::1"}},
		{"RFC 3927, RFC 4291", classLinkLocal, []string{"169.254.0.1", "169.254.255.255", "fe80::1", "febf::1"}},
		{"RFC 6598", classCGNAT, []string{"100.64.0.0", "100.127.255.255"}},
		{"RFC 5771, RFC 4291", classMulticast, []string{"224.0.0.1", "239.255.255.255", "ff02::1"}},
		{"RFC 2544, RFC 5180", classBenchmark, []string{"198.18.0.0", "198.19.255.255", "2001:2::1"}},
		{"RFC 5737, RFC 3849, RFC 9637", classDocumentation,
			[]string{"192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"}},
		{"RFC 6052, RFC 8215", classNAT64, []string{"64:ff9b::8.8.8.8", "64:ff9b::10.0.0.1", "64:ff9b:1::1"}},
		{"RFC 3056, RFC 7526", class6to4, []string{"2002:7f00:1::", "2002:808:808::1", "192.88.99.1"}},
		{"RFC 4380", classTeredo, []string{"2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2"}},
		{"RFC 1112, RFC 6890, RFC 2928 and unassigned", classReserved,
			[]string{"240.0.0.1", "255.255.255.255", "192.0.0.1", "2001:1::1", "2001:20::1", "100::1", "5f00::1",
				"fec0::1", "4000::1", "::8.8.8.8", "64:ff9b:2::1"}},
		{"metadata", classMetadata,
			[]string{"169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16",
				"192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "::ffff:169.254.169.254", "::169.254.169.254"}},
		{"with a zone", classInvalid, []string{"fe80::1%eth0"}},
	} {
		for _, s := range test.addrs {
			if got := classifyAddr(netip.MustParseAddr(s)); got != test.class {
				t.Errorf("%s: %s is %s, want %s", test.about, s, got, test.class)
			}
		}
	}
	if got := classifyAddr(netip.Addr{}); got != classInvalid {
		t.Errorf("the zero address is %s", got)
	}
}

func TestDialable(t *testing.T) {
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	tens := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	nat := []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96")}
	for _, test := range []struct {
		addr     string
		networks []netip.Prefix
		want     bool
	}{
		{"8.8.8.8", nil, true},
		{"::ffff:8.8.8.8", nil, true},
		{"10.0.0.1", nil, false},
		{"10.0.0.1", tens, true},
		{"::ffff:10.0.0.1", tens, true},
		{"10.0.0.1", []netip.Prefix{netip.MustParsePrefix("11.0.0.0/8")}, false},
		{"127.0.0.1", tens, false},
		{"64:ff9b::8.8.8.8", nil, false},
		{"64:ff9b::8.8.8.8", nat, true},
		{"64:ff9b::10.0.0.1", nat, false},
		{"64:ff9b::10.0.0.1", append(tens, nat...), true},
		{"64:ff9b::169.254.169.254", everything, false},
		{"169.254.169.254", everything, false},
		{"169.254.1.1", everything, true},
		{"0.0.0.0", everything, false},
		{"::", everything, false},
		{"224.0.0.1", everything, false},
	} {
		if got := dialable(netip.MustParseAddr(test.addr), test.networks); got != test.want {
			t.Errorf("%s with %v: %t", test.addr, test.networks, got)
		}
	}
}

func TestDialer(t *testing.T) {
	up := httptest.NewServer(nil)
	defer up.Close()
	_, port, _ := net.SplitHostPort(up.Listener.Addr().String())
	local := []Host{{Name: "a.example.com", Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	own, err := OwnAddresses(up.Listener.Addr())
	check.Must(t, err)
	public := netip.MustParseAddr("1.1.1.1")
	at := func(address string, own ...netip.AddrPort) Dialer {
		return Dialer{Own: own,
			Hosts: []Host{{Name: "unknown.example.com", Address: netip.MustParseAddrPort(address),
				Networks: local[0].Networks}}}
	}
	for _, test := range []struct {
		name, address, code string
		dialer              Dialer
	}{
		{"allowed by the upstream", "a.example.com:" + port, "", Dialer{Hosts: local}},
		{"not allowed by another upstream", "a.example.net:" + port, "egress_address_denied", Dialer{Hosts: local}},
		{"not allowed by a subdomain of it", "example.com:" + port, "egress_address_denied", Dialer{Hosts: local}},
		{"no upstream", "a.example.com:" + port, "egress_address_denied", Dialer{}},
		{"one of two answers is private", "rebinding.example.com:" + port, "egress_address_denied", Dialer{}},
		{"address literal", "127.0.0.1:" + port, "egress_address_denied", Dialer{}},
		{"metadata", "169.254.169.254:80", "egress_address_denied", Dialer{}},
		{"own address", "a.example.com:" + port, "egress_address_denied", Dialer{Hosts: local, Own: own}},
		{"own wildcard address", "a.example.com:" + port, "egress_address_denied",
			Dialer{Hosts: local, Own: []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:" + port)}}},
		{"unknown name", "unknown.example.com:" + port, "upstream_unresolvable", Dialer{Hosts: local}},
		{"name without address", "empty.example.com:" + port, "upstream_unresolvable", Dialer{Hosts: local}},
		{"an address in place of the name's", "unknown.example.com:" + port, "", at("127.0.0.1:0")},
		{"an address and port in place of the name's", "unknown.example.com:443", "", at("127.0.0.1:" + port)},
		{"an address in its place that may not be dialled", "unknown.example.com:443", "egress_address_denied",
			at("10.9.8.7:" + port)},
		{"an own address in its place", "unknown.example.com:443", "egress_address_denied",
			at("127.0.0.1:"+port, own...)},
		{"nobody listens", "a.example.com:1", "upstream_unreachable", Dialer{Hosts: local}},
		{"nobody listens at an address in its place", "unknown.example.com:443", "upstream_unreachable",
			at("127.0.0.1:1")},
		{"no target", "0x7f.1:80", "request_malformed", Dialer{Hosts: local}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.dialer.Resolver = names{
				"a.example.com": {loopback}, "a.example.net": {loopback}, "example.com": {loopback},
				"rebinding.example.com": {public, loopback}, "empty.example.com": {},
			}
			c, err := test.dialer.DialContext(context.Background(), "tcp", test.address)
			if test.code == "" {
				check.Must(t, err)
				_ = c.Close()
				return
			}
			check.WantCode(t, err, test.code)
			var public interface{ Public() string }
			if !errors.As(err, &public) {
				t.Fatal(err)
			}
			text := public.Public()
			if test.code == "upstream_unreachable" && (!strings.HasSuffix(text, ": connection refused") ||
				!strings.HasSuffix(err.Error(), ", at [127.0.0.1:1]")) {
				t.Errorf("the error does not say why and where: %s", err)
			}
			if strings.Contains(text, "10.9.8.7") ||
				strings.Contains(text, loopback.String()) != strings.Contains(test.address, loopback.String()) {
				t.Errorf("the error names an address: %s", text)
			}
		})
	}
}

func TestWhyUnreachable(t *testing.T) {
	for want, err := range map[string]error{
		"connection refused": &net.OpError{Op: "dial", Addr: &net.TCPAddr{IP: net.IPv4(10, 9, 8, 7)},
			Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		"no route to host":       os.NewSyscallError("connect", syscall.EHOSTUNREACH),
		"network is unreachable": os.NewSyscallError("connect", syscall.ENETUNREACH),
		"no answer within 10s": &net.OpError{Op: "dial", Addr: &net.TCPAddr{IP: net.IPv4(10, 9, 8, 7)},
			Err: os.ErrDeadlineExceeded},
		"this machine does not let the mediator connect there": os.NewSyscallError("connect", syscall.EACCES),
		"the connection failed":                                errors.New("10.9.8.7 is down"),
	} {
		if got := whyUnreachable(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// A second lookup would give another answer than the judged one.
func TestDialerResolvesOnce(t *testing.T) {
	up := httptest.NewServer(nil)
	defer up.Close()
	_, port, _ := net.SplitHostPort(up.Listener.Addr().String())
	r := &flipping{answers: []netip.Addr{loopback, netip.MustParseAddr("10.0.0.1")}}
	d := Dialer{Resolver: r,
		Hosts: []Host{{Name: "a.example.com", Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}}}
	c, err := d.DialContext(context.Background(), "tcp", "a.example.com:"+port)
	check.Must(t, err)
	_ = c.Close()
	if len(r.answers) != 1 {
		t.Errorf("%d lookups", 2-len(r.answers))
	}
	_, err = d.DialContext(context.Background(), "tcp", "a.example.com:"+port)
	check.WantCode(t, err, "egress_address_denied")
}

type flipping struct{ answers []netip.Addr }

func (f *flipping) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	a := f.answers[0]
	f.answers = f.answers[1:]
	return []netip.Addr{a}, nil
}

func TestOwnAddresses(t *testing.T) {
	own, err := OwnAddresses(&net.TCPAddr{IP: net.IPv4zero, Port: 8080})
	check.Must(t, err)
	d := Dialer{Own: own}
	interfaces, err := net.InterfaceAddrs()
	check.Must(t, err)
	for _, i := range interfaces {
		addr := netip.MustParsePrefix(i.String()).Addr()
		if !d.isOwn(netip.AddrPortFrom(addr, 8080)) || d.isOwn(netip.AddrPortFrom(addr, 8081)) {
			t.Errorf("%s is not judged rightly", addr)
		}
	}
}

func TestCheckDestination(t *testing.T) {
	d := NewTransport(Options{Dialer: Dialer{
		Resolver: names{"a.example": {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.2")}},
		Hosts:    []Host{{Name: "pinned.example", Address: netip.MustParseAddrPort("192.0.2.3:8443")}},
	}})
	for _, tt := range []struct{ host, dialled, code string }{
		{"a.example", "192.0.2.1", ""},
		{"a.example", "192.0.2.2", ""},
		{"a.example", "192.0.2.3", "target_mismatch"},
		{"pinned.example", "192.0.2.3", ""},
		{"pinned.example", "192.0.2.1", "upstream_unresolvable"},
		{"192.0.2.4", "192.0.2.4", ""},
		{"192.0.2.4", "192.0.2.5", "target_mismatch"},
	} {
		err := d.CheckDestination(context.Background(), Target{"https", tt.host, 443}, netip.MustParseAddr(tt.dialled))
		if tt.code != "" {
			check.WantCode(t, err, tt.code)
		} else if err != nil {
			t.Errorf("%s at %s: %v", tt.host, tt.dialled, err)
		}
	}
}

type names map[string][]netip.Addr

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if addrs, ok := n[host]; ok {
		return addrs, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, Server: "10.9.8.7:53", IsNotFound: true}
}

var loopback = netip.MustParseAddr("127.0.0.1")

// asked keeps the names that a resolver is asked for.
type asked struct {
	known names
	hosts []string
}

func (a *asked) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	a.hosts = append(a.hosts, host)
	if host == "service.other." || host == "slow.example." {
		return nil, &net.DNSError{Err: "server misbehaving", IsTemporary: true, IsTimeout: host == "slow.example."}
	}
	return a.known.LookupNetIP(ctx, network, host)
}

func TestAbsoluteFirst(t *testing.T) {
	addr := []netip.Addr{netip.MustParseAddr("8.8.8.8")}
	for host, want := range map[string][]string{
		"api.example":     {"api.example."},
		"service.tenant":  {"service.tenant.", "service.tenant"}, // with a search domain
		"service.other":   {"service.other.", "service.other"},   // with a server that knows no public names
		"slow.example":    {"slow.example."},
		"missing.example": {"missing.example.", "missing.example"},
		"service":         {"service"},
	} {
		a := asked{known: names{"api.example.": addr, "service.tenant": addr, "service.other": addr, "service": addr}}
		addrs, err := absoluteFirst{&a}.LookupNetIP(t.Context(), "ip", host)
		found := host != "missing.example" && host != "slow.example"
		if (err == nil) != found || (len(addrs) == 1) != found {
			t.Errorf("%s: %v, %v", host, addrs, err)
		}
		if !slices.Equal(a.hosts, want) {
			t.Errorf("%s: asked for %q, want %q", host, a.hosts, want)
		}
	}
}
