package runs

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/guard"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// way is one way around the mediator. Nothing may leave, and a rule of guard counts it or the mediator records its
// refusal. Neither happens if the kernel itself closes it; says is then what the agent gets.
type way struct {
	name    string
	try     func() error
	counter string
	code    string
	says    string
	raw     bool // with CAP_NET_RAW, which an agent should not have
	open    bool // without the rules of guard a frame leaves
	inside  bool // without the rules of guard it reaches somebody in the pod
	asks    bool // the mediator resolves a name
	first   bool // before, or as the first of two calls, the mediator forwards one that is allowed
}

var ways = []way{
	// Past the proxy: the kernel refuses them.
	{name: "TCP to another port", try: dial("tcp", "203.0.113.9:22", "a secret"), counter: guard.CountTCP, open: true},
	{name: "TCP to another port of an allowed host", try: dial("tcp", worldAddress+":8443", "a secret"),
		counter: guard.CountTCP, open: true},
	{name: "data in a SYN", try: fastOpen("203.0.113.9", 22), counter: guard.CountTCP, open: true},
	{name: "Multipath TCP to another port", try: multipath("203.0.113.9:22", writing("a secret")), counter: guard.CountTCP,
		open: true},
	{name: "TCP over IPv6", try: dial("tcp", "[fd77::1]:443", "a secret"), counter: guard.CountIPv6, open: true},
	{name: "UDP over IPv6", try: send("udp", "[fd77::1]:443"), counter: guard.CountIPv6, open: true},
	{name: "NAT64", try: dial("tcp", "[64:ff9b::a4d:1]:443", "a secret"), counter: guard.CountIPv6, open: true},
	{name: "6to4", try: dial("tcp", "[2002:a4d:1::1]:80", "a secret"), counter: guard.CountIPv6, open: true},
	{name: "ICMPv6",
		try: bySocket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6,
			&unix.SockaddrInet6{Addr: [16]byte{0xfd, 0x77, 15: 1}},
			append([]byte{128, 0, 0, 0, 0, 1, 0, 1}, "a secret"...)), counter: guard.CountIPv6, raw: true, open: true},
	{name: "a search for a neighbour that is a message",
		try: bySocket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6,
			&unix.SockaddrInet6{Addr: [16]byte{0xfd, 0x77, 15: 1}},
			append([]byte{135, 0, 0, 0}, "a secret in place of an address"...)), counter: guard.CountIPv6, raw: true},
	{name: "QUIC", try: send("udp", "203.0.113.9:443"), counter: guard.CountQUIC, open: true},
	{name: "other UDP", try: send("udp", "203.0.113.9:9999"), counter: guard.CountUDP, open: true},
	{name: "multicast DNS", try: send("udp", "224.0.0.251:5353"), counter: guard.CountUDP, open: true},
	{name: "broadcast",
		try: bySocket(unix.AF_INET, unix.SOCK_DGRAM, 0, inet("255.255.255.255", 9), []byte("a secret"),
			option(unix.SOL_SOCKET, unix.SO_BROADCAST, 1)), counter: guard.CountUDP, open: true},
	{name: "a foreign resolver", try: send("udp", "203.0.113.53:53"), counter: guard.CountDNS, open: true},
	{name: "a foreign resolver by TCP", try: dial("tcp", "203.0.113.53:53", "a secret"), counter: guard.CountDNS,
		open: true},
	{name: "DNS over TLS", try: dial("tcp", "203.0.113.53:853", "a secret"), counter: guard.CountDNS, open: true},
	{name: "DNS over QUIC", try: send("udp", "203.0.113.53:853"), counter: guard.CountDNS, open: true},
	{name: "DNS over TLS to the resolver", try: dial("tcp", worldAddress+":853", "a secret"), counter: guard.CountDNS,
		open: true},
	{name: "ping", try: bySocket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP, inet("203.0.113.9", 0), echoRequest()),
		counter: guard.CountICMP, open: true},
	{name: "ICMP by a raw socket",
		try:     bySocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP, inet("203.0.113.9", 0), echoRequest()),
		counter: guard.CountICMP, raw: true, open: true},
	{name: "SCTP",
		try:     bySocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_SCTP, inet("203.0.113.9", 0), []byte("a secret")),
		counter: guard.CountProtocol, raw: true, open: true},
	{name: "GRE", try: bySocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_GRE, inet("203.0.113.9", 0), []byte("a secret")),
		counter: guard.CountProtocol, raw: true, open: true},
	{name: "IPv6 in IPv4",
		try:     bySocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_IPV6, inet("203.0.113.9", 0), []byte("a secret")),
		counter: guard.CountProtocol, raw: true, open: true},
	{name: "UDP-Lite",
		try:     bySocket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, inet("203.0.113.9", 443), []byte("a secret")),
		counter: guard.CountProtocol, open: true},
	{name: "a foreign source address",
		try: bySocket(unix.AF_INET, unix.SOCK_DGRAM, 0, inet("203.0.113.9", 443), []byte("a secret"),
			option(unix.IPPROTO_IP, unix.IP_TRANSPARENT, 1),
			bound(inet("198.51.100.7", 0))), counter: guard.CountSpoofed, raw: true, open: true},
	{name: "a SYN whose answer goes to somebody else",
		try: bySocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW, inet("203.0.113.9", 0),
			ipv4Packet(unix.IPPROTO_TCP, "198.51.100.7", "203.0.113.9",
				segment(4242, 443))), counter: guard.CountSpoofed, raw: true, open: true},
	{name: "a source route past the resolver",
		try: bySocket(unix.AF_INET, unix.SOCK_DGRAM, 0, inet("203.0.113.53", 53), []byte("a secret"),
			options(sourceRoute(worldAddress, "203.0.113.53"))), counter: guard.CountOptions, raw: true, open: true},
	{name: "a packet socket", try: frame(), counter: guard.CountPacket, raw: true, open: true},
	{name: "a packet socket past the queue", try: frame(option(unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)),
		counter: guard.CountPacket, raw: true, open: true},
	{name: "a multicast group as a message", try: join, counter: guard.CountKernel, open: true},

	// Inside the pod.
	{name: "the mediator's admin port", try: dial("tcp", "127.0.0.1:7001", "GET /v1/posts HTTP/1.1\r\nHost: a\r\n\r\n"),
		counter: guard.CountAdmin, inside: true},
	{name: "the admin port by 0.0.0.0", try: dial("tcp", "0.0.0.0:7001", "GET /v1/posts HTTP/1.1\r\nHost: a\r\n\r\n"),
		counter: guard.CountAdmin, inside: true},
	{name: "the admin port by an IPv4-mapped address",
		try: dial("tcp", "[::ffff:127.0.0.1]:7001", "GET /v1/posts HTTP/1.1\r\nHost: a\r\n\r\n"), counter: guard.CountAdmin,
		inside: true},
	{name: "the admin port by the pod's address",
		try: dial("tcp", podAddress+":7001", "GET /v1/posts HTTP/1.1\r\nHost: a\r\n\r\n"), counter: guard.CountTCP,
		inside: true},
	{name: "the webhook port",
		try:     dial("tcp", "127.0.0.1:8182", "POST /hooks/github HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"),
		counter: guard.CountLoopback},
	{name: "another listener on loopback", try: dial("tcp", "127.0.0.1:9999", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
		counter: guard.CountLoopback, inside: true},
	{name: "UDP on loopback", try: send("udp", "127.0.0.1:9999"), counter: guard.CountLoopback},
	{name: "the mediator's sockets with a path, and abstract ones", try: unixSockets,
		says: "permission denied for [serve trigger control], and no abstract socket"},
	{name: "the transparent listener itself",
		try: dial("tcp", "127.0.0.1:8183", "GET / HTTP/1.1\r\nHost: api.example.org\r\n\r\n"), code: "not_a_proxy_request"},

	// Past the proxy at a redirected port: the mediator gets and refuses them.
	{name: "HTTPS to an address", try: straight("203.0.113.9:443", withTLS("", writing("a secret"))),
		code: "egress_denied", open: true},
	{name: "HTTPS by Multipath TCP", try: multipath("203.0.113.9:443", withTLS("", writing("a secret"))),
		code: "egress_denied", open: true},
	{name: "HTTP to an address", try: dial("tcp", "203.0.113.9:80", "GET / HTTP/1.1\r\nHost: 203.0.113.9\r\n\r\n"),
		code: "egress_denied", open: true},
	{name: "the cloud's metadata",
		try:  dial("tcp", "169.254.169.254:80", "GET /latest/meta-data/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n"),
		code: "egress_address_denied", open: true},
	{name: "the pod's own address at a redirected port",
		try: dial("tcp", podAddress+":80", "GET / HTTP/1.1\r\nHost: "+podAddress+"\r\n\r\n"), code: "egress_denied"},
	{name: "DNS over HTTPS",
		try:  straight("203.0.113.53:443", withTLS("dns.example", writing("GET /dns-query HTTP/1.1", "Host: dns.example"))),
		code: "egress_denied", open: true},
	{name: "an allowed name at another address", try: straight("203.0.113.9:443", withTLS(worldHost, writing("a secret"))),
		code: "target_mismatch", asks: true, open: true},
	{name: "an allowed name in cleartext at another address",
		try: dial("tcp", "203.0.113.9:80", "GET / HTTP/1.1\r\nHost: "+worldHost+"\r\n\r\n"), code: "target_mismatch",
		asks: true, open: true},
	{name: "domain fronting past the proxy",
		try:  straight(worldAddress+":443", withTLS(worldHost, writing("GET / HTTP/1.1", "Host: other.example.org"))),
		code: "target_mismatch", asks: true, open: true},
	{name: "SSH to port 443", try: dial("tcp", "203.0.113.9:443", "SSH-2.0-OpenSSH_9.9\r\n"), code: "not_a_proxy_request",
		open: true},
	{name: "HTTP without TLS to port 443",
		try: dial("tcp", "203.0.113.9:443", "GET / HTTP/1.1\r\nHost: 203.0.113.9:443\r\n\r\n"), code: "egress_denied",
		open: true},
	{name: "a URL to another host past the proxy",
		try:  dial("tcp", worldAddress+":80", "GET http://other.example.org/ HTTP/1.1\r\nHost: "+worldHost+"\r\n\r\n"),
		code: "egress_denied", open: true},
	{name: "HTTP/2 in cleartext to another authority",
		try: straight(worldAddress+":80",
			overHTTP2(":method", "GET", ":scheme", "http", ":authority", "other.example.org", ":path",
				"/")), code: "egress_denied", open: true},
	{name: "mediator.internal past the proxy",
		try: dial("tcp", "203.0.113.9:80", "GET /v1/posts HTTP/1.1\r\nHost: mediator.internal\r\n\r\n"), code: "not_found",
		open: true},
	{name: "a message to the node past the proxy",
		try:  dial("tcp", "203.0.113.9:80", "POST /mcp HTTP/1.1\r\nHost: mediator.internal\r\nContent-Length: 0\r\n\r\n"),
		code: "action_unmatched", open: true},

	// Through the proxy, by another name or address.
	{name: "CONNECT to an address", try: connectTo("203.0.113.9:443"), code: "egress_denied"},
	{name: "CONNECT to another port of an allowed host", try: connectTo(worldHost + ":22"), code: "egress_denied"},
	{name: "CONNECT to a host that nobody allowed", try: connectTo("other.example.org:443"), code: "egress_denied"},
	{name: "CONNECT, then another server name",
		try: inTunnel(worldHost+":443", withTLS("other.example.org", writing("a secret"))), code: "target_mismatch"},
	{name: "domain fronting",
		try:  inTunnel(worldHost+":443", withTLS(worldHost, writing("GET / HTTP/1.1", "Host: other.example.org"))),
		code: "target_mismatch"},
	{name: "a URL to another host in a tunnel",
		try: inTunnel(worldHost+":443",
			withTLS(worldHost,
				writing("GET https://other.example.org/ HTTP/1.1", "Host: "+worldHost))), code: "target_mismatch"},
	{name: "a tunnel in a tunnel",
		try: inTunnel(worldHost+":443",
			withTLS(worldHost,
				writing("CONNECT other.example.org:443 HTTP/1.1", "Host: other.example.org:443"))), code: "request_malformed"},
	{name: "HTTP in a tunnel to port 443", try: inTunnel(worldHost+":443", writing("GET / HTTP/1.1", "Host: "+worldHost)),
		code: "not_a_proxy_request"},
	{name: "HTTP/2 for another authority",
		try: inTunnel(worldHost+":443",
			withTLS(worldHost, overHTTP2(":method", "GET", ":scheme", "https", ":authority", "other.example.org", ":path", "/"),
				"h2")), code: "target_mismatch"},
	{name: "HTTP/2 with a Host beside its authority",
		try: inTunnel(worldHost+":443",
			withTLS(worldHost,
				overHTTP2(":method", "GET", ":scheme", "https", ":authority", worldHost, ":path", "/", "host", "other.example.org"),
				"h2")), code: "target_mismatch"},
	{name: "HTTP/2 CONNECT",
		try: inTunnel(worldHost+":443",
			withTLS(worldHost, overHTTP2(":method", "CONNECT", ":authority", "other.example.org:443"),
				"h2")), code: "request_malformed"},
	{name: "WebSocket",
		try: inTunnel(worldHost+":443",
			withTLS(worldHost,
				writing("GET / HTTP/1.1", "Host: "+worldHost, "Connection: Upgrade", "Upgrade: websocket",
					"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="))), code: "egress_denied"},
	{name: "upgrade to HTTP/2",
		try: proxied("GET http://"+worldHost+"/ HTTP/1.1", "Host: "+worldHost, "Connection: Upgrade, HTTP2-Settings",
			"Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"), code: "egress_denied"},
	{name: "a post that no rule names",
		try: inTunnel(worldHost+":443",
			withTLS(worldHost,
				writing("POST /other HTTP/1.1", "Host: "+worldHost, "Content-Length: 0"))), code: "action_unmatched"},
	{name: "a page of mediator.internal that it does not have",
		try: get("http://mediator.internal/v1/posts", "mediator.internal"), code: "not_found"},
	{name: "mediator.internal in a tunnel to an allowed host",
		try:  inTunnel(worldHost+":443", withTLS(worldHost, writing("GET /v1/posts HTTP/1.1", "Host: mediator.internal"))),
		code: "target_mismatch"},
	{name: "a message to the node that no rule names",
		try:  proxied("POST http://mediator.internal/mcp HTTP/1.1", "Host: mediator.internal", "Content-Length: 0"),
		code: "action_unmatched"},
	{name: "a message to the node in another spelling",
		try:  proxied("POST http://mediator.internal/%6Dcp HTTP/1.1", "Host: mediator.internal", "Content-Length: 0"),
		code: "not_found"},
	{name: "what sidecars alone send to the node",
		try:  proxied("POST http://mediator.internal/v1/receipts HTTP/1.1", "Host: mediator.internal", "Content-Length: 0"),
		code: "not_found"},
	{name: "a message to the node in a tunnel to an allowed host",
		try: inTunnel(worldHost+":443",
			withTLS(worldHost,
				writing("POST http://mediator.internal/mcp HTTP/1.1", "Host: "+worldHost,
					"Content-Length: 0"))), code: "target_mismatch"},
	{name: "the proxy through the proxy", try: get("http://127.0.0.1:8181/", "127.0.0.1:8181"),
		code: "egress_address_denied"},
	{name: "the transparent listener through the proxy", try: get("http://127.0.0.1:8183/", "127.0.0.1:8183"),
		code: "egress_address_denied"},
	{name: "the webhook port through the proxy", try: get("http://127.0.0.1:8182/", "127.0.0.1:8182"),
		code: "egress_denied"},
	{name: "0.0.0.0", try: get("http://0.0.0.0:8182/", "0.0.0.0:8182"), code: "egress_denied"},
	{name: "a decimal address", try: get("http://2852039166/", "2852039166"), code: "request_malformed"},
	{name: "an octal address", try: get("http://0251.0376.0251.0376/", "0251.0376.0251.0376"), code: "request_malformed"},
	{name: "a hexadecimal address", try: get("http://0xa9fea9fe/", "0xa9fea9fe"), code: "request_malformed"},
	{name: "a short address", try: get("http://127.1/", "127.1"), code: "request_malformed"},
	{name: "an IPv4-mapped address", try: get("http://[::ffff:169.254.169.254]/", "[::ffff:169.254.169.254]"),
		code: "request_malformed"},
	{name: "an address with a zone", try: get("http://[fe80::1%25eth0]/", "[fe80::1%25eth0]"), code: "request_malformed"},
	{name: "a NAT64 address through the proxy", try: get("http://[64:ff9b::a9fe:a9fe]/", "[64:ff9b::a9fe:a9fe]"),
		code: "egress_denied"},
	{name: "the cloud's metadata through the proxy",
		try: get("http://169.254.169.254/latest/meta-data/", "169.254.169.254"), code: "egress_address_denied"},
	{name: "a name that is the cloud's metadata", try: get("http://metadata.example.org/", "metadata.example.org"),
		code: "egress_address_denied", asks: true},
	{name: "a name that is the metadata behind NAT64", try: get("http://nat64.example.org/", "nat64.example.org"),
		code: "egress_address_denied", asks: true},
	{name: "a name that is the metadata behind 6to4", try: get("http://6to4.example.org/", "6to4.example.org"),
		code: "egress_address_denied", asks: true},
	{name: "a name that is an IPv4-mapped address", try: get("http://mapped.example.org/", "mapped.example.org"),
		code: "egress_address_denied", asks: true},
	{name: "DNS rebinding to loopback",
		try: inTunnel("rebinding.example.org:443",
			withTLS("rebinding.example.org",
				writing("GET / HTTP/1.1", "Host: rebinding.example.org"))), code: "egress_address_denied", asks: true},
	{name: "gopher", try: get("gopher://203.0.113.9:25/_a%20secret", "203.0.113.9"), code: "request_malformed"},
	{name: "ftp", try: get("ftp://203.0.113.9/", "203.0.113.9"), code: "request_malformed"},
	{name: "a URL without a host", try: get("http:///etc/passwd", worldHost), code: "request_malformed"},
	{name: "a trailing dot", try: get("http://other.example.org./", "other.example.org."), code: "egress_denied"},
	{name: "two trailing dots", try: get("http://"+worldHost+"../", worldHost+".."), code: "request_malformed"},
	{name: "user information", try: get("http://"+worldHost+"@203.0.113.9/", worldHost), code: "request_malformed"},
	{name: "user information in a CONNECT",
		try: proxied("CONNECT "+worldHost+":443@203.0.113.9:443 HTTP/1.1", "Host: "+worldHost), code: "request_malformed"},
	{name: "a percent sign in a host", try: get("http://api%2eexample.org/", worldHost), code: "request_malformed"},
	{name: "letters that look alike", try: connectTo("xn--pi-6kc.example.org:443"), code: "egress_denied"},
	{name: "a redirect to the cloud's metadata", try: client("GET", "https://"+worldHost+"/redirect"),
		code: "egress_address_denied", first: true},
	{name: "a segment in a connection of the mediator's", try: intrude, counter: guard.CountTCP, raw: true, first: true},
}

// allowed is what an agent may do.
var allowed = map[string]func() error{
	"wait for an event":   nextEvent,
	"read by the proxy":   client("GET", "https://"+worldHost+"/"),
	"read past the proxy": func() error { return fetch("GET", "https://"+worldHost+"/") },
	"read in cleartext":   func() error { return fetch("GET", "http://"+worldHost+"/") },
	"read by Multipath": multipath(worldAddress+":443",
		withTLS(worldHost, writing("GET / HTTP/1.1", "Host: "+worldHost))),
	"post":                 post,
	"talk to another part": dial("tcp", "127.0.0.1:7002", "hello"),
}

// TestNoWayAround tries each way with the rules of guard. Without the rules, those past the mediator have to succeed,
// or else the test shows nothing.
func TestNoWayAround(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	for _, address := range []string{"0.0.0.0:7001", "127.0.0.1:7002", "127.0.0.1:9999"} {
		p.listen(address)
	}
	t.Run("without rules", func(t *testing.T) {
		for _, w := range ways {
			if !w.open && !w.inside {
				continue
			}
			t.Run(w.name, func(t *testing.T) {
				p.left()
				left := func() bool { return w.open && len(p.left()) > 0 }
				got := p.try(w.name, left, w.capabilities()...)
				if w.open && got != gotOut && !kit.Eventually(left) {
					t.Errorf("no frame leaves; the agent got %q", got)
				}
				if w.inside && got != "" {
					t.Errorf("the agent got %q", got)
				}
			})
		}
	})
	p.rules(t, "none")
	t.Run("without rules for devices", func(t *testing.T) { // which would stop most of what the others let through
		for _, w := range ways {
			if w.counter != "" && w.counter != guard.CountPacket && !w.first { // after which the mediator keeps a connection
				t.Run(w.name, func(t *testing.T) { p.refuses(t, w) })
			}
		}
	})
	p.rules(t, "eth0")
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) { p.refuses(t, w) })
	}
	p.guardSeen(`"msg":"the rules of guard are complete"`)
	for name := range allowed { // last: the mediator's own connections stay open and are not silent
		t.Run(name, func(t *testing.T) {
			if got := p.try(name, nil); got != "" {
				t.Errorf("the agent got %q", got)
			}
		})
	}
	if out, err := p.guard("--check"); err == nil || !strings.Contains(out, "the chain") {
		t.Errorf("rules of another configuration: %v\n%s", err, out)
	}
}

func (w *way) capabilities() []uintptr {
	if w.raw {
		return []uintptr{unix.CAP_NET_RAW}
	}
	return nil
}

// rules installs the rules, with an admin port that the mediator of the test does not have.
func (p *pod) rules(t *testing.T, devices string) {
	t.Helper()
	p.devices = nil
	if devices != "none" {
		p.devices = []string{devices}
	}
	out, err := p.pod.output(
		exec.Command("sh", "-ec",
			`sed -e 's/^admin:.*/admin: {tcp: "127.0.0.1:7001", tokenFile: token}/' \
			-e 's/^guard: {/&devices: ['$1'], /' "$0/mediator.yaml" >"$0/guard.yaml"
		"$0/mediator" guard --config "$0/guard.yaml"
		"$0/mediator" guard --config "$0/guard.yaml" --check`, p.Dir, devices))
	if err != nil || !strings.Contains(out, "the rules stand; packets refused:\n       0 refused_spoofed\n") {
		t.Fatalf("mediator guard: %v\n%s", err, out)
	}
}

// listen plays a process in the pod that answers everybody.
func (p *pod) listen(address string) {
	p.t.Helper()
	var l net.Listener
	var err error
	p.pod.do(func() { l, err = net.Listen("tcp4", address) })
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello"))
			_ = c.Close()
		}
	}()
}

func (p *pod) refuses(t *testing.T, w way) {
	before, counted := p.posts(""), p.counters()
	p.left()
	got := p.try(w.name, nil, w.capabilities()...)
	frames := p.left()
	if w.asks {
		frames = slices.DeleteFunc(frames, func(f string) bool {
			return strings.HasPrefix(f, "protocol 17 from "+podAddress+" to "+worldAddress) && strings.HasSuffix(f, "00 35")
		})
	}
	if w.first { // the mediator sends as well
		frames = slices.DeleteFunc(frames, func(f string) bool { return !strings.HasSuffix(f, secretLeft) })
	}
	if len(frames) > 0 {
		t.Errorf("these left: %q", frames)
	}
	if got == "" && w.counter == "" {
		t.Error("the agent got an answer")
	}
	if w.says != "" && got != w.says {
		t.Errorf("the agent got %q", got)
	}
	if w.counter != "" && !kit.Eventually(func() bool { return p.counters()[w.counter] > counted[w.counter] }) {
		t.Errorf("%s counts nothing; the agent got %q", w.counter, got)
	}
	records := p.newPosts(before, w)
	if w.first && len(records) > 0 {
		records = slices.DeleteFunc(records, func(r ledger.Record) bool { return r.State == ledger.StateForwarded })
	}
	if w.code == "" && len(records) > 0 || w.code != "" &&
		(len(records) != 1 || records[0].Code != w.code || records[0].State != ledger.StateRefused) {
		t.Errorf("want one record of %q; the agent got %q, and the records are", w.code, got)
		for _, r := range records {
			t.Errorf("- %s %s %s %s %s: %s", r.Flow, r.State, r.Method, r.Host, r.Code, r.Reason)
		}
	}
}

// newPosts returns the records since before, and waits for the one that has to come.
func (p *pod) newPosts(before []ledger.Record, w way) (posts []ledger.Record) {
	kit.Eventually(func() bool {
		posts = slices.DeleteFunc(p.posts(""), func(r ledger.Record) bool {
			return slices.ContainsFunc(before, func(b ledger.Record) bool { return b.ID == r.ID })
		})
		return w.code == "" || slices.ContainsFunc(posts, func(r ledger.Record) bool { return r.Code != "" })
	})
	return posts
}

// TestGuardMissing posts before the rules are installed, with them, and without them again.
func TestGuardMissing(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	posts := func(want string) {
		t.Helper()
		got := p.try("post", nil)
		if newest := p.posts("post")[0]; newest.Code != want || (want == "") != (got == "") {
			t.Errorf("got %s %q, want %q: %s; the agent got %q", newest.State, newest.Code, want, newest.Reason, got)
		}
	}
	p.guardSeen("a datagram to 192.0.2.1 is not refused")
	posts("deployment_contradicted")
	p.install()
	p.guardSeen(`"msg":"the rules of guard are complete"`)
	posts("")
	p.pod.sh(t, "nft delete chain inet mediator redirected || nft flush chain inet mediator redirected")
	p.guardSeen("does not come back to the transparent listener")
	posts("deployment_contradicted")
}

// guardSeen waits until the sidecar has logged what it saw of the rules.
func (p *pod) guardSeen(what string) {
	p.t.Helper()
	if !kit.Eventually(func() bool {
		raw, err := os.ReadFile(filepath.Join(p.Dir, "serve.log"))
		return err == nil && strings.Contains(string(raw), what)
	}) {
		p.t.Errorf("the sidecar does not say that %s", what)
	}
}
