package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
)

func TestRedirectedCallsPassTheChokePoint(t *testing.T) {
	dialled := netip.MustParseAddr("192.0.2.7")
	p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) {
		o.Destination = func(_ context.Context, target upstream.Target, got netip.Addr) error {
			resolver := names{target.Host: {netip.MustParseAddr("192.0.2.1"), dialled}}
			return upstream.NewTransport(upstream.Options{Dialer: upstream.Dialer{Resolver: resolver}}).
				CheckDestination(context.Background(), target, got)
		}
	})
	port := p.base[strings.LastIndex(p.base, ":"):]
	post := func(t *testing.T, client *http.Client) *http.Response {
		t.Helper()
		resp, err := client.Post(p.base+"/posts", "application/json", strings.NewReader(`{}`))
		must(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp
	}
	client := p.Redirected(p.Redirect(dialled.String()+port), "http/1.1")
	if resp := post(t, client); resp.StatusCode != http.StatusCreated {
		t.Errorf("status %d", resp.StatusCode)
	}
	p.wantLast(1, ledger.Record{State: ledger.StateForwarded})
	client.CloseIdleConnections()

	refused := func(t *testing.T, name, code string) {
		t.Helper()
		_, before := p.record.last()
		c := tls.Client(p.Redirect("192.0.2.7"+port)(), &tls.Config{ServerName: name, RootCAs: p.Roots()})
		defer c.Close()
		resp := roundTripRaw(t, c, "POST /posts HTTP/1.1\r\nHost: "+name+port+"\r\nContent-Length: 2\r\n\r\n{}")
		text, _ := io.ReadAll(resp.Body)
		if !strings.Contains(string(text), `"code":"`+code+`"`) {
			t.Errorf("the agent reads %d %s", resp.StatusCode, text)
		}
		p.wantLast(before+1, ledger.Record{Code: code, State: ledger.StateRefused, Flow: flowConnect})
	}
	refused(t, "elsewhere.example.org", "egress_denied")
	dialled = netip.MustParseAddr("192.0.2.9")
	refused(t, "a.example.com", "target_mismatch")
	p.sessions.Close(p.session.ID)
	refused(t, "a.example.com", "session_required")
	if len(p.sent) != 1 {
		t.Errorf("the upstream saw %d calls", len(p.sent))
	}
}

// A redirected client cannot speak to a proxy, so its credentials are ignored.
func TestRedirectedClientsHaveNoCredentials(t *testing.T) {
	p := newPostRig(t, created, nil)
	c := p.Redirect("192.0.2.7" + p.base[strings.LastIndex(p.base, ":"):])()
	defer c.Close()
	for i, credentials := range []string{"", "Proxy-Authorization: Basic eDp5\r\n"} {
		resp := roundTripRaw(t, c, "GET /inference HTTP/1.1\r\nHost: "+at(0, p.upstream)+"\r\n"+credentials+"\r\n")
		_, _ = io.Copy(io.Discard, resp.Body)
		p.wantLast(i+1, ledger.Record{Code: "egress_denied", Flow: flowEgress, Session: p.session.ID})
	}
}
