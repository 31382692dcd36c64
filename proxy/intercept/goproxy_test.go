package intercept_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/test/proxytest"
)

// Fault 6: goproxy tunnels an undecided CONNECT, and asks the environment for a proxy. Here it cannot reach anything.
func TestFault6GoproxyCannotDial(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:9")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:9")
	up := newUpstream(t, nil, http1)
	r := newRig(t, func(o *intercept.Options) {
		transport := proxytest.NewTransport(t, up.Server)
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			resp, err := get(t, transport, r.URL.String())
			must(t, err)
			defer resp.Body.Close()
			_, _ = io.Copy(w, resp.Body)
		})
	}, up.Server)
	dispatch := httptest.NewServer(r.Proxy.Dispatch()) // for an undecided request
	defer dispatch.Close()

	c, err := net.Dial("tcp", dispatch.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "CONNECT "+up.Listener.Addr().String()+" HTTP/1.1\r\nHost: x\r\n\r\n")
	if answer, _ := io.ReadAll(c); len(answer) != 0 {
		t.Errorf("an undecided CONNECT was answered with %q", answer)
	}
	resp, err := http.Get(dispatch.URL)
	wantAnswer(t, resp, err, "internal")

	g := r.Proxy.Dispatch()
	if _, err := g.ConnectDial("tcp", up.Listener.Addr().String()); err == nil {
		t.Error("ConnectDial dials")
	}
	if _, err := g.ConnectDialWithReq(httptest.NewRequest("CONNECT", "/", nil), "tcp", up.Listener.Addr().String()); err ==
		nil {
		t.Error("ConnectDialWithReq dials")
	}
	for _, url := range []string{up.URL, "http://" + up.Listener.Addr().String()} {
		q, _ := http.NewRequest(http.MethodGet, url, nil)
		if resp, err := g.Tr.RoundTrip(q); err == nil {
			_ = resp.Body.Close()
			t.Error("the transport dials")
		}
	}
	// Our own transport ignores the environment's port 9.
	mustGet(t, r.Client(http1), "https://"+at(0, up.Server)+"/direct", "GET /direct")
	if n := up.Conns.Load(); n != 1 {
		t.Errorf("the upstream saw %d connections, want 1", n)
	}
}

// If goproxy leaves the connection, net/http must not answer 200.
func TestDispatchTakesNothing(t *testing.T) {
	r := newRig(t, nil)
	r.Proxy.SetDispatch(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	wantAnswer(t, roundTripRaw(t, r.Dial(), "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n"), nil,
		"internal")
	for r.Proxy.OpenTunnels() != 0 {
		runtime.Gosched()
	}
}
