package wire_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/test/check"
)

func TestHandshakeFailure(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate
	defer server.Close()
	for name, test := range map[string]struct {
		client        func(net.Conn) error
		server, ended string
		byPeer        bool // as the server sees it
	}{
		"a CA that is not trusted": {
			func(c net.Conn) error { return tls.Client(c, &tls.Config{ServerName: "a.example"}).Handshake() },
			"the client ended it with the alert bad certificate",
			"the mediator ended it, because of: failed to verify certificate", true,
		},
		"a CA that OpenSSL does not trust": {
			func(c net.Conn) error {
				return tls.Client(unencrypted{c}, &tls.Config{ServerName: "a.example"}).Handshake()
			},
			"the client ended it with an unencrypted alert, as OpenSSL does if it distrusts the certificate",
			"the mediator ended it, because of: failed to verify certificate", true,
		},
		"an old version": {
			func(c net.Conn) error {
				return tls.Client(c,
					&tls.Config{ServerName: "a.example", MinVersion: tls.VersionTLS10,
						MaxVersion: tls.VersionTLS11}).Handshake()
			},
			"the mediator ended it, because of: client offered only unsupported versions",
			"the client ended it with the alert protocol version not supported", false,
		},
		"a protocol that the client made up": {
			func(c net.Conn) error {
				return tls.Client(c,
					&tls.Config{ServerName: "a.example", NextProtos: []string{"secret: words"}}).Handshake()
			},
			"the mediator ended it, because of: client requested unsupported application protocols",
			"the client ended it with the alert no application protocol", false,
		},
		"a client that goes": {
			func(c net.Conn) error { return errors.Join(errors.New("tls: none"), c.Close()) },
			"the client closed the connection without saying why", "the mediator ended it, because of: none", true,
		},
		"no TLS": {
			func(c net.Conn) error {
				_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: secret\r\n\r\n")
				return errors.Join(errors.New("tls: none"), err)
			},
			"the mediator ended it, because of: first record does not look like a TLS handshake",
			"the mediator ended it, because of: none", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			check.Must(t, err)
			defer l.Close()
			failed := make(chan error, 1)
			go func() {
				c, err := net.Dial("tcp", l.Addr().String())
				if err == nil {
					err = test.client(c)
				}
				failed <- err
			}()
			c, err := l.Accept()
			check.Must(t, err)
			defer c.Close()
			err = tls.Server(c,
				&tls.Config{Certificates: server.TLS.Certificates, NextProtos: []string{"h2"}}).HandshakeContext(
				t.Context())
			if got, byPeer := wire.HandshakeFailure(err, "the client"); got != test.server || byPeer != test.byPeer {
				t.Errorf("the server: %q, %t, of %v", got, byPeer, err)
			}
			if got, _ := wire.HandshakeFailure(<-failed, "the client"); got != test.ended {
				t.Errorf("the client: %q, want %q", got, test.ended)
			}
		})
	}
	if got, _ := wire.HandshakeFailure(errors.New("tls: "+strings.Repeat("a", 200)),
		"x"); got != "the connection broke" {
		t.Errorf("got %q", got)
	}
}

// unencrypted sends the alert unknown_ca in place of encrypted records.
type unencrypted struct{ net.Conn }

func (c unencrypted) Write(b []byte) (int, error) {
	if i := bytes.Index(b, []byte{23, 3, 3}); i >= 0 {
		_, err := c.Conn.Write(append(bytes.Clone(b[:i]), 21, 3, 3, 0, 2, 2, 48))
		return len(b), err
	}
	return c.Conn.Write(b)
}
