package proxytest

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/check"
)

// Above starts an upstream proxy, which answers each CONNECT by serve. With a certificate, it speaks TLS.
func Above(t testing.TB, certificate func() *tls.Certificate, serve func(c net.Conn, connect *http.Request)) *upstream.Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	if certificate != nil {
		l = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate(), nil }})
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				connect, err := http.ReadRequest(bufio.NewReader(oneByte{c}))
				if err != nil {
					_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
					return
				}
				serve(c, connect)
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.ParseUint(port, 10, 16)
	return &upstream.Proxy{Host: "127.0.0.1", Port: uint16(n)}
}

// Tunnel carries a CONNECT to the address, instead of the one that it names.
func Tunnel(t testing.TB, c net.Conn, address string) {
	to, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer to.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() {
		_, _ = io.Copy(to, c)
		_ = to.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(c, to)
}
