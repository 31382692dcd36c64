package upstream_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/proxytest"
)

// Debian's squid carries calls by both schemes, over HTTP and TLS, and refuses what its rules deny.
func TestSquid(t *testing.T) {
	full.Only(t, "squid")
	for _, scheme := range []string{"basic", "digest"} {
		t.Run(scheme, func(t *testing.T) {
			squid := proxytest.NewSquid(t, scheme, "a.example.com")
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(squid.CA)
			for _, at := range []netip.AddrPort{squid.HTTP, squid.HTTPS} {
				p := upstream.Proxy{Host: at.Addr().String(), Port: at.Port(), Digest: scheme == "digest"}
				if at == squid.HTTPS {
					p.TLS = &tls.Config{ServerName: p.Host, RootCAs: roots, MinVersion: tls.VersionTLS12}
				}
				trySquid(t, p)
			}
		})
	}
}

func trySquid(t *testing.T, p upstream.Proxy) {
	login := proxytest.SquidLogin
	p.Login = func() (string, error) { return login, nil }
	for _, protocol := range []protocol{http1, http2} {
		up := newUpstream(t, nil, protocol)
		t.Cleanup(up.Close)
		resp, err := get(t, through(t, up.Server, &p), "https://"+at(0, up.Server))
		must(t, err)
		if wantBody(t, resp, "GET /"); (resp.ProtoMajor == 2) != (protocol == http2) {
			t.Errorf("HTTP/%d", resp.ProtoMajor)
		}
	}
	up := newUpstream(t, nil, http1)
	t.Cleanup(up.Close)
	resolving := p
	resolving.Resolves = true
	for host, code := range map[string]string{
		"a.example.com": "", proxytest.SquidDenied: "upstream_proxy_refused",
		"unknown.example.com": "upstream_unreachable",
	} {
		target := upstream.Target{Host: host, Port: proxytest.PortOf(up.Server)}
		resp, err := get(t, through(t, up.Server, &resolving), "https://"+target.Address())
		if code == "" {
			must(t, err)
			wantBody(t, resp, "GET /")
		} else {
			wantCode(t, err, code)
		}
	}
	for login = range map[string]bool{"mediator:wrong": true, "nobody:the-password": true} {
		_, err := get(t, through(t, up.Server, &p), "https://"+at(0, up.Server)) //nolint:bodyclose // no answer
		if wantCode(t, err, "upstream_proxy_login"); strings.Contains(err.Error(), "password") {
			t.Error(err)
		}
	}
	login = proxytest.SquidLogin // the file was corrected
	resp, err := get(t, through(t, up.Server, &p), "https://"+at(0, up.Server))
	check.Must(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	check.Must(t, resp.Body.Close())
}
