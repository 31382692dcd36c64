package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/trigger"
)

// newSocketRig allows WebSockets at /ws, in front of an upstream that echoes.
func newSocketRig(t *testing.T, change func(*PipelineOptions)) *postRig {
	t.Helper()
	return newPostRig(t, echoSocket, func(o *PipelineOptions, actions []rules.Action) {
		o.Rules = rulesFor(t, actions, []rules.Egress{
			{Name: "sockets", Match: matchAt(actions[0], "/ws", "GET"), Credential: actions[0].Credential,
				WebSocket: true},
			{Name: "reads", Match: matchAt(actions[0], "/**", "GET")},
		})
		if change != nil {
			change(o)
		}
	})
}

// echoSocket answers the handshake of RFC 6455 section 1.3 and echoes.
func echoSocket(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Authorization") != "Bearer "+secretToken {
		http.Error(w, "no handshake with the credential", http.StatusUnauthorized)
		return
	}
	echoed := r.Header.Get("X-Echo") // the answer repeats this header
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c,
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
			"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSet-Cookie: "+
			"a=b\r\nX-Kept: 1\r\nX-Echoed: "+r.Header.Get(echoed)+"\r\n\r\n")
	_, _ = io.Copy(c, rw)
}

// open returns a WebSocket and the answer to its handshake.
func (p *postRig) open(path string) (net.Conn, *http.Response) {
	p.T.Helper()
	c := p.MustTunnel(at(0, p.upstream))
	return c, roundTripRaw(p.T, c, handshake(path, at(0, p.upstream)))
}

func handshake(path, authority string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: " + authority +
		"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: Bearer mine\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
}

// says sends text and waits for its echo.
func says(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	must(t, err)
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("got %q, %v", got, err)
	}
}

func (p *postRig) wantEnd(c net.Conn, code string, bytes int64) {
	p.T.Helper()
	if rest, err := io.ReadAll(c); len(rest) > 0 || isTimeout(err) {
		p.T.Fatalf("the WebSocket did not end: %q, %v", rest, err)
	}
	p.wait(1)
	if rec := p.wantLast(1, ledger.Record{Code: code, State: ledger.StateForwarded, Flow: flowEgress, Rule: "sockets",
		Status: http.StatusSwitchingProtocols, Session: p.session.ID}); rec.BytesIn != bytes || rec.BytesOut != bytes {
		p.T.Errorf("%d bytes in, %d out", rec.BytesIn, rec.BytesOut)
	}
	p.wantIdle()
}

// wantIdle waits until nothing is in flight: places are free after the record.
func (p *postRig) wantIdle() {
	p.T.Helper()
	eventually(p.T, func() bool {
		calls, sockets := p.pipeline.load.InFlight()
		return calls+sockets == 0
	}, "a call still counts")
}

// wait waits for n records and returns the last.
func (p *postRig) wait(n int) ledger.Record {
	p.T.Helper()
	eventually(p.T, func() bool { _, got := p.record.last(); return got >= n }, "there are no %d records", n)
	rec, _ := p.record.last()
	return rec
}

func TestWebSocket(t *testing.T) {
	const text = "no frame, for nothing looks into it"
	for _, tt := range []struct {
		name, text, code string
		change           func(*PipelineOptions)
		end              func(*postRig, net.Conn)
	}{
		{"the agent ends it", text, "", nil, func(_ *postRig, c net.Conn) {
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
		}},
		{"the session ends", text, "websocket_closed", nil,
			func(p *postRig, _ net.Conn) { p.sessions.Close(p.session.ID) }},
		{"the pod's session ends", text, "websocket_closed", nil, func(p *postRig, _ net.Conn) {
			p.sessions.CloseStanding("")
		}},
		{"the pod's next session opens", text, "websocket_closed", nil, func(p *postRig, _ net.Conn) {
			p.sessions.OpenStanding(trigger.Event{ID: "evt_2"}, "worker-1", "")
		}},
		{"nothing comes", "", "websocket_closed", func(o *PipelineOptions) {
			o.Timeouts.WebSocketIdle = 50 * time.Millisecond
		}, func(*postRig, net.Conn) {}},
		{"the mediator shuts down", text, "shutting_down", nil, func(p *postRig, _ net.Conn) {
			must(p.T, p.Proxy.Shutdown(context.Background())) // returns after the WebSocket's record
			if _, n := p.record.last(); n != 1 {
				p.T.Errorf("%d records at the end of the shutdown", n)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newSocketRig(t, tt.change)
			c, resp := p.open("/ws")
			if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("X-Kept") != "1" ||
				resp.Header.Get("Set-Cookie") != "" || resp.Header.Get("Connection") != "Upgrade" {
				t.Fatalf("got %d %v", resp.StatusCode, resp.Header)
			}
			says(t, c, tt.text)
			tt.end(p, c)
			p.wantEnd(c, tt.code, int64(len(tt.text)))
		})
	}
}

func TestHandshakeThatRepeatsTheCredential(t *testing.T) {
	p := newSocketRig(t, nil)
	c := p.MustTunnel(at(0, p.upstream))
	resp := roundTripRaw(t, c,
		strings.Replace(handshake("/ws", at(0, p.upstream)), "\r\n\r\n", "\r\nX-Echo: Authorization\r\n\r\n", 1))
	body, _ := io.ReadAll(resp.Body)
	if got := answerText(resp, body); got != "502 answer_withheld" || strings.Contains(string(body), secretToken) {
		t.Errorf("got %s", body)
	}
	p.wait(1)
	p.wantLast(1, ledger.Record{Code: "answer_withheld", Status: http.StatusSwitchingProtocols})
}

func TestWebSocketThatBreaks(t *testing.T) {
	p := newSocketRig(t, nil)
	c, _ := p.open("/ws")
	says(t, c, "hello")
	_ = c.(*tls.Conn).NetConn().(*net.TCPConn).SetLinger(0) // so that it ends with a reset
	_ = c.(*tls.Conn).NetConn().Close()
	p.wait(1)
	p.wantLast(1, ledger.Record{Code: "client_gone", State: ledger.StateForwarded, BytesIn: 5})
}

func TestWebSocketsAreBounded(t *testing.T) {
	p := newSocketRig(t, func(o *PipelineOptions) { o.Load.WebSockets = 1 })
	first, resp := p.open("/ws")
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %d", resp.StatusCode)
	}
	second, resp := p.open("/ws")
	body, _ := io.ReadAll(resp.Body)
	if got := answerText(resp, body); got != "503 overloaded" || len(p.sent) != 1 {
		t.Fatalf("got %s, and %d calls arrived", got, len(p.sent))
	}
	must(t, second.Close())
	says(t, first, "goes on")
	must(t, first.(*tls.Conn).CloseWrite())
	p.wait(2)
	p.wantIdle()
	third, resp := p.open("/ws")
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %d once the first has ended", resp.StatusCode)
	}
	must(t, third.Close())
	p.wait(3)
}

func TestReloadWithAnOpenWebSocket(t *testing.T) {
	p := newSocketRig(t, nil)
	open, _ := p.open("/ws")
	says(t, open, "before")
	p.reload(rules.Egress{Name: "reads", Match: matching(t, p.base+"/**", "GET")})
	says(t, open, "after")
	other, resp := p.open("/ws")
	body, _ := io.ReadAll(resp.Body)
	if got := answerText(resp, body); got != "403 egress_denied" {
		t.Errorf("got %s", got)
	}
	must(t, errors.Join(other.Close(), open.Close()))
	p.wait(2)
}

func TestWebSocketIsNotAnswered(t *testing.T) {
	for _, path := range []string{"/x", "/posts", "/none/**"} {
		p := newSocketRig(t, func(o *PipelineOptions) { o.HangUp = true })
		c := p.MustTunnel(at(0, p.upstream))
		_, err := io.WriteString(c, handshake(path, at(0, p.upstream)))
		must(t, err)
		if rest, err := io.ReadAll(c); len(rest) > 0 || isTimeout(err) {
			t.Errorf("%s: got %q, %v", path, rest, err)
		}
		p.wait(1)
		p.wantLast(1, ledger.Record{Code: "egress_denied", State: ledger.StateRefused})
		if len(p.sent) != 0 {
			t.Errorf("%s was sent", path)
		}
	}
	p := newSocketRig(t, func(o *PipelineOptions) { o.HangUp = true })
	// other protocols are answered
	p.wantRefused("egress_denied", "GET", "/x", "", "Connection", "Upgrade", "Upgrade", "h2c")
}
