package runs

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/test/e2e/kit"
)

// The agent of the tests of guard. It trusts every certificate and follows no proxy variable.

// agentPatience bounds the agent's waits. It is short, since a closed way may be silent.
var agentPatience = 5 * time.Second

func runWay(args []string) int {
	name := args[0]
	try := allowed[name]
	if try != nil {
		agentPatience = kit.Patience
	}
	for _, w := range ways {
		if w.name == name {
			try = w.try
		}
	}
	if try == nil {
		fmt.Fprintf(os.Stderr, "there is no way %q\n", name)
		return 1
	}
	if err := try(); err != nil {
		fmt.Println(err)
	}
	return 0
}

func dial(network, address, text string) func() error {
	return func() error {
		c, err := net.DialTimeout(network, address, agentPatience)
		if err != nil {
			return err
		}
		defer c.Close()
		return talk(c, text)
	}
}

func talk(c net.Conn, text string) error {
	_ = c.SetDeadline(time.Now().Add(agentPatience))
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	b := make([]byte, 4096)
	n, err := c.Read(b)
	if n == 0 {
		return fmt.Errorf("no answer: %w", err)
	}
	if line, _, _ := bytes.Cut(b[:n], []byte("\r\n")); bytes.HasPrefix(line, []byte("HTTP/1.")) &&
		!bytes.Contains(line, []byte(" 200 ")) {
		return errors.New(string(line))
	}
	return nil
}

func send(network, address string) func() error {
	return func() error {
		c, err := net.Dial(network, address)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = io.WriteString(c, secret)
		return err
	}
}

func proxied(lines ...string) func() error { return plain("127.0.0.1:8181", lines...) }

func get(host, path string) func() error {
	return proxied("GET http://"+host+path+" HTTP/1.1", "Host: "+host)
}

func toNode(path string) func() error {
	return proxied("POST http://mediator.internal"+path+" HTTP/1.1", "Host: mediator.internal", "Content-Length: 0")
}

func plain(address string, lines ...string) func() error {
	return dial("tcp", address, strings.Join(lines, "\r\n")+"\r\n\r\n")
}

func connectTo(authority string) func() error {
	return proxied("CONNECT "+authority+" HTTP/1.1", "Host: "+authority)
}

func inTunnel(authority string, then func(net.Conn) error) func() error {
	return func() error {
		c, err := net.DialTimeout("tcp", "127.0.0.1:8181", agentPatience)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := talk(c, "CONNECT "+authority+" HTTP/1.1\r\nHost: "+authority+"\r\n\r\n"); err != nil {
			return fmt.Errorf("no tunnel: %w", err)
		}
		return then(c)
	}
}

func tunneled(lines ...string) func() error {
	return inTunnel(worldHost+":443", withTLS(worldHost, writing(lines...)))
}

func tunneledHTTP2(fields ...string) func() error {
	return inTunnel(worldHost+":443", withTLS(worldHost, overHTTP2(fields...), "h2"))
}

func straight(address string, then func(net.Conn) error) func() error {
	return func() error {
		c, err := net.DialTimeout("tcp", address, agentPatience)
		if err != nil {
			return err
		}
		defer c.Close()
		return then(c)
	}
}

func writing(lines ...string) func(net.Conn) error {
	return func(c net.Conn) error { return talk(c, strings.Join(lines, "\r\n")+"\r\n\r\n") }
}

func withTLS(name string, then func(net.Conn) error, protocols ...string) func(net.Conn) error {
	return func(c net.Conn) error {
		_ = c.SetDeadline(time.Now().Add(agentPatience))
		inner := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: protocols})
		if err := inner.Handshake(); err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		return then(inner)
	}
}

func overHTTP2(fields ...string) func(net.Conn) error {
	return func(c net.Conn) error {
		_ = c.SetDeadline(time.Now().Add(agentPatience))
		if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
			return err
		}
		var block bytes.Buffer
		enc := hpack.NewEncoder(&block)
		for i := 0; i < len(fields); i += 2 {
			_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		f := http2.NewFramer(c, c)
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		if err := errors.Join(f.WriteSettings(),
			f.WriteHeaders(
				http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true,
					EndStream: true})); err != nil {
			return err
		}
		for {
			frame, err := f.ReadFrame()
			switch h := frame.(type) {
			case *http2.MetaHeadersFrame:
				if status := h.PseudoValue("status"); status != "200" {
					return errors.New("status " + status)
				}
				return nil
			case *http2.RSTStreamFrame, *http2.GoAwayFrame:
				return errors.New("refused by HTTP/2")
			}
			if err != nil {
				return err
			}
		}
	}
}

func client(method, url string) func() error {
	return func() error {
		_ = os.Setenv("HTTPS_PROXY", "http://127.0.0.1:8181")
		_ = os.Setenv("HTTP_PROXY", "http://127.0.0.1:8181")
		return fetch(method, url)
	}
}

func fetch(method, url string) error {
	resolver := net.Dialer{
		Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, worldAddress+":53")
		}}}
	c := &http.Client{Timeout: 2 * agentPatience,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: resolver.DialContext,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

func nextEvent() error {
	return get("mediator.internal", "/v1/event/next?wait=10s")()
}

func post() error {
	if err := nextEvent(); err != nil {
		return err
	}
	return inTunnel(worldHost+":443", withTLS(worldHost, func(c net.Conn) error {
		_ = c.SetDeadline(time.Now().Add(2 * agentPatience))
		if _, err := io.WriteString(c,
			"POST /posts HTTP/1.1\r\nHost: "+worldHost+
				"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	}))()
}

func bySocket(family, kind, protocol int, to unix.Sockaddr, payload []byte,
	options ...func(fd int) error) func() error {
	return func() error {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			return fmt.Errorf("socket: %w", err)
		}
		defer unix.Close(fd)
		for _, o := range options {
			if err := o(fd); err != nil {
				return fmt.Errorf("option: %w", err)
			}
		}
		return unix.Sendto(fd, payload, 0, to)
	}
}

func packet(protocol int, payload []byte) func() error {
	return bySocket(unix.AF_INET, unix.SOCK_RAW, protocol, inet(stranger, 0), payload)
}

func datagram(address string, port int, options ...func(fd int) error) func() error {
	return bySocket(unix.AF_INET, unix.SOCK_DGRAM, 0, inet(address, port), []byte(secret), options...)
}

func icmpv6(message string) func() error {
	to := &unix.SockaddrInet6{Addr: [16]byte{0xfd, 0x77, 15: 1}}
	return bySocket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6, to, []byte(message))
}

func inet(address string, port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Addr: netip.MustParseAddr(address).As4(), Port: port}
}

// echoRequest is an ICMP echo request (RFC 792) with its checksum.
func echoRequest() []byte {
	b := append([]byte{8, 0, 0, 0, 0, 1, 0, 1}, secret...)
	binary.BigEndian.PutUint16(b[2:], checksum(b))
	return b
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func ipv4Packet(protocol byte, from, to string, payload []byte) []byte {
	src, dst := netip.MustParseAddr(from).As4(), netip.MustParseAddr(to).As4()
	b := []byte{0x45, 0, 0, byte(20 + len(payload)), 0, 1, 0, 0, 64, protocol, 0, 0}
	b = append(append(b, src[:]...), dst[:]...)
	binary.BigEndian.PutUint16(b[10:], checksum(b))
	return append(b, payload...)
}

// sourceRoute is the option (RFC 791) that sends a packet for one host by another.
func sourceRoute(by, to string) []byte {
	b := []byte{131, 11, 4}
	for _, a := range []string{by, to} {
		b = append(b, netip.MustParseAddr(a).AsSlice()...)
	}
	return append(b, 0)
}

// intrude sends a segment in a connection of the mediator, whose ports every process of a pod can read.
func intrude() error {
	if err := allowed["read by the proxy"](); err != nil { // so that there is one
		return err
	}
	raw, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) < 8 || fields[7] != fmt.Sprint(mediatorUID) || fields[3] != "01" ||
			!strings.HasSuffix(fields[2], ":01BB") {
			continue
		}
		from, err := strconv.ParseUint(fields[1][len(fields[1])-4:], 16, 16)
		if err != nil {
			return err
		}
		data := append(segment(uint16(from), 443), secret...)
		data[13] = 0x18 // PSH and ACK
		return bySocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW, inet(worldAddress, 0),
			ipv4Packet(unix.IPPROTO_TCP, podAddress, worldAddress, data))()
	}
	return errors.New("the mediator has no connection")
}

// segment is a TCP SYN (RFC 9293) without a checksum.
func segment(from, to uint16) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b[0:], from)
	binary.BigEndian.PutUint16(b[2:], to)
	b[4], b[12], b[13] = 42, 5<<4, 2
	return b
}

func frame(options ...func(fd int) error) func() error {
	return func() error {
		dev, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		datagram := append([]byte{0, 99, 0, 99, 0, 16, 0, 0}, secret...)
		b := append(bytes.Repeat([]byte{0xff}, 6), dev.HardwareAddr...)
		b = append(append(b, 8, 0), ipv4Packet(unix.IPPROTO_UDP, podAddress, worldAddress, datagram)...)
		to := &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_IP), Ifindex: dev.Index, Halen: 6}
		copy(to.Addr[:], b[:6])
		return bySocket(unix.AF_PACKET, unix.SOCK_RAW, 0, to, b, options...)()
	}
}

func option(level, name, value int) func(fd int) error {
	return func(fd int) error { return unix.SetsockoptInt(fd, level, name, value) }
}

func options(raw []byte) func(fd int) error {
	return func(fd int) error { return unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_OPTIONS, string(raw)) }
}

func bound(to unix.Sockaddr) func(fd int) error {
	return func(fd int) error { return unix.Bind(fd, to) }
}

// multipath connects by Multipath TCP (RFC 8684).
func multipath(address string, then func(net.Conn) error) func() error {
	return func() error {
		d := net.Dialer{Timeout: agentPatience / 4}
		d.SetMultipathTCP(true)
		c, err := d.Dial("tcp", address)
		if err != nil {
			return err
		}
		defer c.Close()
		return then(c)
	}
}

func join() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.SetsockoptIPMreq(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
		&unix.IPMreq{Multiaddr: [4]byte{239, 1, 2, 3}, Interface: netip.MustParseAddr(podAddress).As4()})
}

// fastOpen sends data in the SYN (RFC 7413).
func fastOpen(address string, port int) func() error {
	return func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		err = unix.Sendto(fd, []byte(secret), unix.MSG_FASTOPEN, inet(address, port))
		if errors.Is(err, unix.EINPROGRESS) {
			return nil
		}
		return err
	}
}

// unixSockets looks for the mediator's sockets: those with a path, and abstract ones, which the containers of a pod
// share.
func unixSockets() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var refused []string
	for _, name := range []string{"serve", "trigger", "control"} {
		path := strings.TrimSuffix(self, "mediator") + "run/" + name + ".sock"
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			return nil
		} else if !errors.Is(err, syscall.EACCES) {
			return err
		}
		refused = append(refused, name)
	}
	f, err := os.Open("/proc/self/net/unix")
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 7 && strings.HasPrefix(fields[7], "@") {
			return nil
		}
	}
	return fmt.Errorf("permission denied for %v, and no abstract socket", refused)
}
