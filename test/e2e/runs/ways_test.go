package runs

import (
	"net"
	"os"
	"os/exec"
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
	attempt
	counter, code, says string
	marks               mark
}

type attempt struct {
	name string
	try  func() error
}

type mark int

const (
	raw    mark = 1 << iota // with CAP_NET_RAW, which an agent should not have
	leaves                  // without the rules of guard a frame leaves
	inside                  // without the rules of guard it reaches somebody in the pod
	asks                    // the mediator resolves a name
	first                   // before, or as the first of two calls, the mediator forwards one that is allowed
)

func (w way) is(m mark) bool { return w.marks&m != 0 }

func counted(counter string, marks mark, attempts ...attempt) (list []way) {
	for _, a := range attempts {
		list = append(list, way{attempt: a, counter: counter, marks: marks})
	}
	return list
}

func refused(code string, marks mark, attempts ...attempt) (list []way) {
	for _, a := range attempts {
		list = append(list, way{attempt: a, code: code, marks: marks})
	}
	return list
}

const (
	stranger, resolver = "203.0.113.9", "203.0.113.53" // hosts outside of the pod
	other              = "other.example.org"           // a host that no rule names
)

var ways = slices.Concat(
	// Past the proxy: the kernel refuses them.
	counted(guard.CountTCP, leaves,
		attempt{"TCP to another port", dial("tcp", stranger+":22", secret)},
		attempt{"TCP to another port of an allowed host", dial("tcp", worldAddress+":8443", secret)},
		attempt{"data in a SYN", fastOpen(stranger, 22)},
		attempt{"Multipath TCP to another port", multipath(stranger+":22", writing(secret))}),
	counted(guard.CountIPv6, leaves,
		attempt{"TCP over IPv6", dial("tcp", "[fd77::1]:443", secret)},
		attempt{"UDP over IPv6", send("udp", "[fd77::1]:443")},
		attempt{"NAT64", dial("tcp", "[64:ff9b::a4d:1]:443", secret)},
		attempt{"6to4", dial("tcp", "[2002:a4d:1::1]:80", secret)}),
	counted(guard.CountIPv6, raw|leaves, attempt{"ICMPv6", icmpv6("\x80\x00\x00\x00\x00\x01\x00\x01a secret")}),
	counted(guard.CountIPv6, raw, attempt{"a search for a neighbour that is a message",
		icmpv6("\x87\x00\x00\x00a secret in place of an address")}),
	counted(guard.CountQUIC, leaves, attempt{"QUIC", send("udp", stranger+":443")}),
	counted(guard.CountUDP, leaves,
		attempt{"other UDP", send("udp", stranger+":9999")},
		attempt{"multicast DNS", send("udp", "224.0.0.251:5353")},
		attempt{"broadcast", datagram("255.255.255.255", 9, option(unix.SOL_SOCKET, unix.SO_BROADCAST, 1))}),
	counted(guard.CountDNS, leaves,
		attempt{"a foreign resolver", send("udp", resolver+":53")},
		attempt{"a foreign resolver by TCP", dial("tcp", resolver+":53", secret)},
		attempt{"DNS over TLS", dial("tcp", resolver+":853", secret)},
		attempt{"DNS over QUIC", send("udp", resolver+":853")},
		attempt{"DNS over TLS to the resolver", dial("tcp", worldAddress+":853", secret)}),
	counted(guard.CountICMP, leaves, attempt{"ping",
		bySocket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP, inet(stranger, 0), echoRequest())}),
	counted(guard.CountICMP, raw|leaves,
		attempt{"ICMP by a raw socket", packet(unix.IPPROTO_ICMP, echoRequest())}),
	counted(guard.CountProtocol, raw|leaves,
		attempt{"SCTP", packet(unix.IPPROTO_SCTP, []byte(secret))},
		attempt{"GRE", packet(unix.IPPROTO_GRE, []byte(secret))},
		attempt{"IPv6 in IPv4", packet(unix.IPPROTO_IPV6, []byte(secret))}),
	counted(guard.CountProtocol, leaves, attempt{"UDP-Lite",
		bySocket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, inet(stranger, 443), []byte(secret))}),
	counted(guard.CountSpoofed, raw|leaves,
		attempt{"a foreign source address",
			datagram(stranger, 443, option(unix.IPPROTO_IP, unix.IP_TRANSPARENT, 1), bound(inet("198.51.100.7", 0)))},
		attempt{"a SYN whose answer goes to somebody else",
			packet(unix.IPPROTO_RAW, ipv4Packet(unix.IPPROTO_TCP, "198.51.100.7", stranger, segment(4242, 443)))}),
	counted(guard.CountOptions, raw|leaves, attempt{"a source route past the resolver",
		datagram(resolver, 53, options(sourceRoute(worldAddress, resolver)))}),
	counted(guard.CountPacket, raw|leaves,
		attempt{"a packet socket", frame()},
		attempt{"a packet socket past the queue", frame(option(unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1))}),
	counted(guard.CountKernel, leaves, attempt{"a multicast group as a message", join}),

	// Inside the pod.
	counted(guard.CountAdmin, inside,
		attempt{"the mediator's admin port", plain("127.0.0.1:7001", "GET /v1/posts HTTP/1.1", "Host: a")},
		attempt{"the admin port by 0.0.0.0", plain("0.0.0.0:7001", "GET /v1/posts HTTP/1.1", "Host: a")},
		attempt{"the admin port by an IPv4-mapped address",
			plain("[::ffff:127.0.0.1]:7001", "GET /v1/posts HTTP/1.1", "Host: a")},
		attempt{"the console", plain("127.0.0.1:8184", "GET /login HTTP/1.1", "Host: a")},
		attempt{"the console by IPv6", plain("[::1]:8184", "GET /login HTTP/1.1", "Host: a")}),
	counted(guard.CountTCP, inside, attempt{"the admin port by the pod's address",
		plain(podAddress+":7001", "GET /v1/posts HTTP/1.1", "Host: a")}),
	counted(guard.CountLoopback, 0,
		attempt{"the webhook port", plain("127.0.0.1:8182", "POST /hooks/github HTTP/1.1", "Host: a", "Content-Length: 0")},
		attempt{"UDP on loopback", send("udp", "127.0.0.1:9999")}),
	counted(guard.CountLoopback, inside,
		attempt{"another listener on loopback", plain("127.0.0.1:9999", "GET / HTTP/1.1", "Host: a")}),
	[]way{{attempt: attempt{"the mediator's sockets with a path, and abstract ones", unixSockets},
		says: "permission denied for [serve trigger control], and no abstract socket"}},
	refused("not_a_proxy_request", 0, attempt{"the transparent listener itself",
		plain("127.0.0.1:8183", "GET / HTTP/1.1", "Host: "+worldHost)}),

	// Past the proxy at a redirected port: the mediator gets and refuses them.
	refused("egress_denied", leaves,
		attempt{"HTTPS to an address", straight(stranger+":443", withTLS("", writing(secret)))},
		attempt{"HTTPS by Multipath TCP", multipath(stranger+":443", withTLS("", writing(secret)))},
		attempt{"HTTP to an address", plain(stranger+":80", "GET / HTTP/1.1", "Host: "+stranger)},
		attempt{"DNS over HTTPS",
			straight(resolver+":443", withTLS("dns.example", writing("GET /dns-query HTTP/1.1", "Host: dns.example")))},
		attempt{"a URL to another host past the proxy",
			plain(worldAddress+":80", "GET http://"+other+"/ HTTP/1.1", "Host: "+worldHost)}),
	refused("request_malformed", 0,
		attempt{"HTTP/2 in cleartext to another authority",
			straight(worldAddress+":80", overHTTP2(":method", "GET", ":scheme", "http", ":authority", other, ":path", "/"))}),
	refused("egress_denied", 0,
		attempt{"the pod's own address at a redirected port",
			plain(podAddress+":80", "GET / HTTP/1.1", "Host: "+podAddress)}),
	refused("egress_address_denied", leaves, attempt{"the cloud's metadata",
		plain("169.254.169.254:80", "GET /latest/meta-data/ HTTP/1.1", "Host: 169.254.169.254")}),
	refused("target_mismatch", asks|leaves,
		attempt{"an allowed name at another address", straight(stranger+":443", withTLS(worldHost, writing(secret)))},
		attempt{"an allowed name in cleartext at another address",
			plain(stranger+":80", "GET / HTTP/1.1", "Host: "+worldHost)},
		attempt{"domain fronting past the proxy",
			straight(worldAddress+":443", withTLS(worldHost, writing("GET / HTTP/1.1", "Host: "+other)))}),
	refused("not_http", leaves,
		attempt{"HTTP without TLS to port 443", plain(stranger+":443", "GET / HTTP/1.1", "Host: "+stranger+":443")},
		attempt{"SSH to port 443", dial("tcp", stranger+":443", "SSH-2.0-OpenSSH_9.9\r\n")}),
	refused("not_found", leaves, attempt{"mediator.internal past the proxy",
		plain(stranger+":80", "GET /v1/posts HTTP/1.1", "Host: mediator.internal")}),
	refused("action_unmatched", leaves, attempt{"a message to the node past the proxy",
		plain(stranger+":80", "POST /mcp HTTP/1.1", "Host: mediator.internal", "Content-Length: 0")}),

	// Through the proxy, by another name or address.
	refused("egress_denied", 0,
		attempt{"CONNECT to an address", connectTo(stranger + ":443")},
		attempt{"CONNECT to another port of an allowed host", connectTo(worldHost + ":22")},
		attempt{"CONNECT to a host that nobody allowed", connectTo(other + ":443")},
		attempt{"WebSocket", tunneled("GET / HTTP/1.1", "Host: "+worldHost, "Connection: Upgrade", "Upgrade: websocket",
			"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")},
		attempt{"upgrade to HTTP/2", proxied("GET http://"+worldHost+"/ HTTP/1.1", "Host: "+worldHost,
			"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")},
		attempt{"the webhook port through the proxy", get("127.0.0.1:8182", "/")},
		attempt{"0.0.0.0", get("0.0.0.0:8182", "/")},
		attempt{"a NAT64 address through the proxy", get("[64:ff9b::a9fe:a9fe]", "/")},
		attempt{"a trailing dot", get(other+".", "/")},
		attempt{"letters that look alike", connectTo("xn--pi-6kc.example.org:443")}),
	refused("target_mismatch", 0,
		attempt{"CONNECT, then another server name", inTunnel(worldHost+":443", withTLS(other, writing(secret)))},
		attempt{"domain fronting", tunneled("GET / HTTP/1.1", "Host: "+other)},
		attempt{"a URL to another host in a tunnel", tunneled("GET https://"+other+"/ HTTP/1.1", "Host: "+worldHost)},
		attempt{"HTTP/2 for another authority",
			tunneledHTTP2(":method", "GET", ":scheme", "https", ":authority", other, ":path", "/")},
		attempt{"HTTP/2 with a Host beside its authority",
			tunneledHTTP2(":method", "GET", ":scheme", "https", ":authority", worldHost, ":path", "/", "host", other)},
		attempt{"mediator.internal in a tunnel to an allowed host",
			tunneled("GET /v1/posts HTTP/1.1", "Host: mediator.internal")},
		attempt{"a message to the node in a tunnel to an allowed host",
			tunneled("POST http://mediator.internal/mcp HTTP/1.1", "Host: "+worldHost, "Content-Length: 0")}),
	refused("request_malformed", 0,
		attempt{"a tunnel in a tunnel", tunneled("CONNECT "+other+":443 HTTP/1.1", "Host: "+other+":443")},
		attempt{"HTTP/2 CONNECT", tunneledHTTP2(":method", "CONNECT", ":authority", other+":443")},
		attempt{"a decimal address", get("2852039166", "/")},
		attempt{"an octal address", get("0251.0376.0251.0376", "/")},
		attempt{"a hexadecimal address", get("0xa9fea9fe", "/")},
		attempt{"a short address", get("127.1", "/")},
		attempt{"an IPv4-mapped address", get("[::ffff:169.254.169.254]", "/")},
		attempt{"an address with a zone", get("[fe80::1%25eth0]", "/")},
		attempt{"gopher", proxied("GET gopher://"+stranger+":25/_a%20secret HTTP/1.1", "Host: "+stranger)},
		attempt{"ftp", proxied("GET ftp://"+stranger+"/ HTTP/1.1", "Host: "+stranger)},
		attempt{"a URL without a host", proxied("GET http:///etc/passwd HTTP/1.1", "Host: "+worldHost)},
		attempt{"two trailing dots", get(worldHost+"..", "/")},
		attempt{"user information", proxied("GET http://"+worldHost+"@"+stranger+"/ HTTP/1.1", "Host: "+worldHost)},
		attempt{"user information in a CONNECT",
			proxied("CONNECT "+worldHost+":443@"+stranger+":443 HTTP/1.1", "Host: "+worldHost)},
		attempt{"a percent sign in a host", proxied("GET http://api%2eexample.org/ HTTP/1.1", "Host: "+worldHost)}),
	refused("not_http", 0, attempt{"HTTP in a tunnel to port 443",
		inTunnel(worldHost+":443", writing("GET / HTTP/1.1", "Host: "+worldHost))}),
	refused("action_unmatched", 0,
		attempt{"a post that no rule names", tunneled("POST /other HTTP/1.1", "Host: "+worldHost, "Content-Length: 0")},
		attempt{"a message to the node that no rule names", toNode("/mcp")}),
	refused("not_found", 0,
		attempt{"a page of mediator.internal that it does not have", get("mediator.internal", "/v1/posts")},
		attempt{"a message to the node in another spelling", toNode("/%6Dcp")},
		attempt{"what sidecars alone send to the node", toNode("/v1/receipts")}),
	refused("egress_address_denied", 0,
		attempt{"the proxy through the proxy", get("127.0.0.1:8181", "/")},
		attempt{"the transparent listener through the proxy", get("127.0.0.1:8183", "/")},
		attempt{"the cloud's metadata through the proxy", get("169.254.169.254", "/latest/meta-data/")}),
	refused("egress_address_denied", asks,
		attempt{"a name that is the cloud's metadata", get("metadata.example.org", "/")},
		attempt{"a name that is the metadata behind NAT64", get("nat64.example.org", "/")},
		attempt{"a name that is the metadata behind 6to4", get("6to4.example.org", "/")},
		attempt{"a name that is an IPv4-mapped address", get("mapped.example.org", "/")},
		attempt{"DNS rebinding to loopback", inTunnel("rebinding.example.org:443",
			withTLS("rebinding.example.org", writing("GET / HTTP/1.1", "Host: rebinding.example.org")))}),
	refused("egress_address_denied", first,
		attempt{"a redirect to the cloud's metadata", client("GET", "https://"+worldHost+"/redirect")}),
	counted(guard.CountTCP, raw|first, attempt{"a segment in a connection of the mediator's", intrude}),
)

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
			if !w.is(leaves | inside) {
				continue
			}
			t.Run(w.name, func(t *testing.T) {
				p.left()
				left := func() bool { return w.is(leaves) && len(p.left()) > 0 }
				got := p.try(w.name, left, w.capabilities()...)
				if w.is(leaves) && got != gotOut && !kit.Eventually(left) {
					t.Errorf("no frame leaves; the agent got %q", got)
				}
				// The console answers, and refuses a name that is not its own.
				console := strings.HasPrefix(w.name, "the console") && got == "HTTP/1.1 403 Forbidden"
				if w.is(inside) && got != "" && !console {
					t.Errorf("the agent got %q", got)
				}
			})
		}
	})
	p.rules(t, "none")
	t.Run("without rules for devices", func(t *testing.T) { // which would stop most of what the others let through
		for _, w := range ways {
			if w.counter != "" && w.counter != guard.CountPacket && !w.is(first) { // after which the mediator keeps a connection
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
	if w.is(raw) {
		return []uintptr{unix.CAP_NET_RAW}
	}
	return nil
}

func (p *pod) rules(t *testing.T, devices string) {
	t.Helper()
	p.devices = nil
	if devices != "none" {
		p.devices = []string{devices}
	}
	out, err := p.pod.output(
		exec.Command("sh", "-ec",
			`sed -e 's/^admin:.*/admin: {tcp: "127.0.0.1:7001", callers: ["spiffe:\/\/a.test\/b"]}\
tls: {certificate: api.pem, key: api.key, authorities: api-ca.pem}/' \
			-e 's/^guard: {/&devices: ['$1'], /' "$0/mediator.yaml" >"$0/guard.yaml"
		"$0/mediator" guard --config "$0/guard.yaml"
		"$0/mediator" guard --config "$0/guard.yaml" --check`, p.Dir, devices))
	if err != nil || !strings.Contains(out, "the rules stand; packets refused:\n       0 refused_spoofed\n") {
		t.Fatalf("mediator guard: %v\n%s", err, out)
	}
}

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
	if w.is(asks) {
		frames = slices.DeleteFunc(frames, func(f string) bool {
			return strings.HasPrefix(f, "protocol 17 from "+podAddress+" to "+worldAddress) && strings.HasSuffix(f, "00 35")
		})
	}
	if w.is(first) { // the mediator sends as well
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
	if w.is(first) && len(records) > 0 {
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

func (p *pod) newPosts(before []ledger.Record, w way) (posts []ledger.Record) {
	kit.Eventually(func() bool {
		posts = slices.DeleteFunc(p.posts(""), func(r ledger.Record) bool {
			return slices.ContainsFunc(before, func(b ledger.Record) bool { return b.ID == r.ID })
		})
		return w.code == "" || slices.ContainsFunc(posts, func(r ledger.Record) bool { return r.Code != "" })
	})
	return posts
}

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
	p.guardSeen("do not refuse a datagram to 192.0.2.1")
	posts("deployment_contradicted")
	p.install()
	p.guardSeen(`"msg":"the rules of guard are complete"`)
	posts("")
	p.pod.sh(t, "nft delete chain inet mediator redirected || nft flush chain inet mediator redirected")
	p.guardSeen("do not redirect a connection to")
	posts("deployment_contradicted")
}

func (p *pod) guardSeen(what string) {
	p.t.Helper()
	if !kit.Eventually(func() bool {
		raw, err := os.ReadFile(p.Dir + "/serve.log")
		return err == nil && strings.Contains(string(raw), what)
	}) {
		p.t.Errorf("the sidecar does not say that %s", what)
	}
}
