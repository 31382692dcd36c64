package intercept

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/check"
)

// addressed is a connection that was made to some address.
type addressed struct {
	net.Conn
	local net.Addr
}

func (c addressed) LocalAddr() net.Addr { return c.local }

// TestKeyExchange: what stays on the loopback interface is agreed without ML-KEM, by clients that can; everything else is agreed with it.
func TestKeyExchange(t *testing.T) {
	ca, err := NewCA(CAOptions{Now: time.Now})
	check.Must(t, err)
	p, err := New(Options{
		CA: ca, Handler: http.NotFoundHandler(), Refuse: func(http.ResponseWriter, *http.Request, error) {}, Now: time.Now,
		Connect: func(r *http.Request, _ upstream.Target) (context.Context, error) { return r.Context(), nil },
	})
	check.Must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	loopback, pod := net.IPv4(127, 0, 0, 1), net.IPv4(192, 0, 2, 1)
	for name, tt := range map[string]struct {
		local   net.Addr
		offered []tls.CurveID
		want    tls.CurveID
	}{
		"loopback":               {&net.TCPAddr{IP: loopback}, nil, tls.X25519},
		"loopback, IPv6":         {&net.TCPAddr{IP: net.IPv6loopback}, nil, tls.X25519},
		"loopback, hybrid alone": {&net.TCPAddr{IP: loopback}, []tls.CurveID{tls.X25519MLKEM768}, tls.X25519MLKEM768},
		"loopback, P-256 alone":  {&net.TCPAddr{IP: loopback}, []tls.CurveID{tls.CurveP256}, tls.CurveP256},
		"another address":        {&net.TCPAddr{IP: pod}, nil, tls.X25519MLKEM768},
		"no address":             {&net.TCPAddr{}, nil, tls.X25519MLKEM768},
		"no TCP":                 {&net.UnixAddr{Name: "127.0.0.1"}, nil, tls.X25519MLKEM768},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			defer server.Close()
			tunnel := newConn(p, addressed{server, tt.local}, func() {})
			tunnel.route = Route{Target: upstream.Target{Scheme: "https", Host: "a.example", Port: 443}}
			done := make(chan error, 1)
			go func() { done <- tls.Server(tunnel.socket, p.tls).Handshake() }()
			c := tls.Client(client, &tls.Config{RootCAs: roots, ServerName: "a.example", CurvePreferences: tt.offered})
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if got := c.ConnectionState().CurveID; got != tt.want {
				t.Errorf("the keys were agreed by %v, want %v", got, tt.want)
			}
		})
	}
}
