package agentpod

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/files"
)

// Validation says what a container of an agent's pod tries before the agent starts.
type Validation struct {
	// Proxy is the address of the proxy, which must answer. Wait bounds the wait for it.
	Proxy string
	Wait  time.Duration
	// Outside are addresses outside the cluster, which must not answer.
	Outside []netip.Addr
	// DNS says that the pod's name servers must not answer either.
	DNS bool
}

// settle bounds the time in which a way out may be open at first: a NetworkPolicy can come after the pod. wayTimeout
// bounds one attempt.
const settle, wayTimeout = 15 * time.Second, 2 * time.Second

// Run returns nil once the proxy answers, and no other way out of this network namespace is open. A way counts as
// closed if nothing comes back: from inside, a packet that is lost outside looks like one that was refused.
func (v Validation) Run(ctx context.Context) error {
	ca, err := v.awaitProxy(ctx)
	if err != nil {
		return err
	}
	for until := time.Now().Add(settle); ; {
		open := v.open(ctx, ca)
		if len(open) == 0 {
			return ctx.Err()
		}
		if time.Now().After(until) {
			return fmt.Errorf("the agent of this pod does not start, because it could go around the mediator: %s. "+
				"Install the kernel rules (guard) or the NetworkPolicies (pod) of this mode", strings.Join(open, "; "))
		}
		if err := every.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// awaitProxy waits until the proxy answers, and returns its CA's certificate.
func (v Validation) awaitProxy(ctx context.Context) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, v.Wait)
	defer cancel()
	through := &url.URL{Scheme: "http", Host: v.Proxy}
	client := &http.Client{Timeout: wayTimeout, Transport: &http.Transport{Proxy: http.ProxyURL(through),
		DisableKeepAlives: true}}
	for {
		ca, err := askedCA(ctx, client)
		if err == nil {
			return ca, nil
		}
		if every.Sleep(ctx, time.Second) != nil {
			return nil, fmt.Errorf("the agent of this pod does not start, because the mediator does not answer at %s: "+
				"%w", v.Proxy, err)
		}
	}
}

const caPath = "/v1/ca.pem" // of the mediator's own name

func askedCA(ctx context.Context, client *http.Client) (*x509.Certificate, error) {
	r, err := caRequest(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	return certificateIn(resp)
}

func certificateIn(resp *http.Response) (*x509.Certificate, error) {
	raw, err := caIn(resp)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("the mediator's answer is not a certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

// open tries all ways out at once, and returns a sentence for each that is open.
func (v Validation) open(ctx context.Context, ca *x509.Certificate) (open []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	try := func(way string, leaves func(context.Context) bool) {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, wayTimeout)
			defer cancel()
			if leaves(ctx) {
				mu.Lock()
				defer mu.Unlock()
				open = append(open, way)
			}
		})
	}
	tcp := func(host, port string) {
		at := net.JoinHostPort(host, port)
		try("TCP to "+at+" is open", func(ctx context.Context) bool { return tcpLeaves(ctx, at, ca) })
	}
	dns := func(host string) {
		at := net.JoinHostPort(host, "53")
		try("DNS over UDP from "+at+" answers", func(ctx context.Context) bool { return udpLeaves(ctx, at) })
		try("DNS over TCP at "+at+" is open", func(ctx context.Context) bool { return tcpLeaves(ctx, at, ca) })
	}
	for _, a := range v.Outside {
		for _, port := range []string{"80", "443", "853", "8443"} {
			tcp(a.String(), port)
		}
		dns(a.String())
		udp := net.JoinHostPort(a.String(), "443")
		try("UDP from "+udp+" answers", func(ctx context.Context) bool { return udpLeaves(ctx, udp) })
		try("ICMP from "+a.String()+" answers", func(context.Context) bool { return echoLeaves(a) })
	}
	tcp("169.254.169.254", "80") // the cloud's metadata
	if host := os.Getenv("KUBERNETES_SERVICE_HOST"); host != "" {
		tcp(host, os.Getenv("KUBERNETES_SERVICE_PORT"))
	}
	if v.DNS {
		for _, server := range nameservers() {
			dns(server)
		}
	}
	try("raw sockets can be opened (drop the capability NET_RAW)", func(context.Context) bool { return rawSockets() })
	all.Wait()
	return open
}

// tcpLeaves reports whether a connection is made to anyone but the mediator, to which kernel rules may redirect it.
func tcpLeaves(ctx context.Context, at string, ca *x509.Certificate) bool {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", at)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(wayTimeout))
	if strings.HasSuffix(at, ":443") {
		over := tls.Client(c, &tls.Config{ServerName: "mediator.internal",
			InsecureSkipVerify: true}) //nolint:gosec // the CA that it must have is compared
		if over.HandshakeContext(ctx) != nil {
			return true
		}
		return over.ConnectionState().PeerCertificates[0].CheckSignatureFrom(ca) != nil
	}
	_, err = io.WriteString(c, "GET "+caPath+" HTTP/1.1\r\nHost: mediator.internal\r\nConnection: close\r\n\r\n")
	if err != nil {
		return true
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return true
	}
	got, err := certificateIn(resp)
	return err != nil || !got.Equal(ca)
}

// udpLeaves reports whether anything answers a DNS query.
func udpLeaves(ctx context.Context, at string) bool {
	query := dnsmessage.Message{Header: dnsmessage.Header{ID: 1, RecursionDesired: true},
		Questions: []dnsmessage.Question{
			{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeNS, Class: dnsmessage.ClassINET}}}
	raw, err := query.Pack()
	if err != nil {
		return true
	}
	c, err := new(net.Dialer).DialContext(ctx, "udp", at)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(wayTimeout))
	if _, err := c.Write(raw); err != nil {
		return false
	}
	_, err = c.Read(make([]byte, 512))
	return err == nil
}

// echoLeaves reports whether an echo is answered. A process without rights can ask for one where the kernel lets it.
func echoLeaves(a netip.Addr) bool {
	network, kind, protocol := "udp4", icmp.Type(ipv4.ICMPTypeEcho), 1
	if a.Is6() {
		network, kind, protocol = "udp6", ipv6.ICMPTypeEchoRequest, 58
	}
	c, err := icmp.ListenPacket(network, "")
	if err != nil {
		return false
	}
	defer c.Close()
	raw, err := (&icmp.Message{Type: kind, Body: &icmp.Echo{ID: 1, Seq: 1}}).Marshal(nil)
	if err != nil {
		return true
	}
	_ = c.SetDeadline(time.Now().Add(wayTimeout))
	if _, err := c.WriteTo(raw, &net.UDPAddr{IP: a.AsSlice()}); err != nil {
		return false
	}
	answer := make([]byte, 512)
	n, _, err := c.ReadFrom(answer)
	if err != nil {
		return false
	}
	m, err := icmp.ParseMessage(protocol, answer[:n])
	return err == nil && (m.Type == ipv4.ICMPTypeEchoReply || m.Type == ipv6.ICMPTypeEchoReply)
}

func rawSockets() bool {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6, unix.AF_PACKET} {
		fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err == nil {
			_ = unix.Close(fd)
			return true
		}
	}
	return false
}

// nameservers returns the pod's name servers as the C library reads them: at most three.
func nameservers() (all []string) {
	raw, err := files.Read("/etc/resolv.conf")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == "nameserver" && len(all) < 3 {
			all = append(all, f[1])
		}
	}
	return all
}
