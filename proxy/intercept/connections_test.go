package intercept_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/intercept"
)

// Waiting connections keep nobody out of a shared listener. The party with the most loses them first, and running calls
// lose none.
func TestConnectionsThatWait(t *testing.T) {
	const limit = 8
	const plain = "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"
	release, began, half := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r := newRig(t, func(o *intercept.Options) {
		o.Limits.Connections = limit
		o.Party = func(r intercept.Route) string { return r.ProxyAuthorization }
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				began <- struct{}{}
				<-release
			}
			if r.URL.Path == "/half" {
				half <- struct{}{}
			}
			_, _ = io.WriteString(w, "done")
		})
	})
	tunnel := func(party string) net.Conn {
		c := r.Dial()
		resp := roundTripRaw(t, c,
			"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nProxy-Authorization: "+party+"\r\n\r\n")
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", party, resp.Status)
		}
		return c
	}
	intercepted := func(party string, protocols ...string) net.Conn {
		c := tls.Client(tunnel(party), &tls.Config{RootCAs: r.Roots(), ServerName: "a.example", NextProtos: protocols})
		must(t, c.Handshake())
		return c
	}
	slow := r.Dial()
	_, err := io.WriteString(slow, "GET http://a.example/slow HTTP/1.1\r\nHost: a.example\r\n\r\n")
	must(t, err)
	<-began
	used := intercepted("other")
	const inside = getRoot
	wantBody(t, roundTripRaw(t, used, inside), "done")
	for name, open := range map[string]func(i int){
		"silent":               func(int) { r.Dial() },
		"after a call":         func(int) { wantBody(t, roundTripRaw(t, r.Dial(), plain), "done") },
		"silent tunnels":       func(int) { tunnel("hostile") },
		"tunnels":              func(int) { intercepted("hostile") },
		"tunnels after a call": func(int) { wantBody(t, roundTripRaw(t, intercepted("hostile"), inside), "done") },
		"HTTP/2":               func(int) { newFrames(t, intercepted("hostile", "h2")) },
		"half a body": func(int) {
			_, _ = io.WriteString(r.Dial(),
				"POST http://a.example/half HTTP/1.1\r\nHost: a.example\r\nContent-Length: 9\r\n\r\n")
			select {
			case <-half:
			case <-time.After(10 * time.Second):
				t.Fatal("a call whose body does not come keeps out the next connection")
			}
		},
		"half a header": func(i int) { _, _ = fmt.Fprintf(r.Dial(), "GET http://a.example/%d HTTP/1.1\r\n", i) },
	} {
		for i := range 3 * limit {
			open(i)
		}
		if t.Failed() {
			t.Fatal(name)
		}
	}
	wantBody(t, roundTripRaw(t, used, inside), "done") // it waited too, as the only one of its party
	close(release)
	must(t, slow.SetReadDeadline(time.Now().Add(3*time.Minute)))
	wantBody(t, readRaw(t, bufio.NewReader(slow), "GET"), "done")
}
