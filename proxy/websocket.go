package proxy

import (
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/proxy/websocket"
)

// mayUpgrade admits the handshake of a WebSocket where an egress rule allows it. Nothing else may change the protocol.
func (p *Pipeline) mayUpgrade(c *call, to *endpoint) error {
	asksWebSocket := wire.NamesWebSocket(c.r.Header)
	if asksWebSocket && to != nil && to.webSocket() {
		return wire.CheckWebSocket(c.r)
	}
	c.hangUp = asksWebSocket && p.o.HangUp
	return refusal.New("upgrade_refused", "the call asks to switch to protocol %.40q; no rule allows that", strings.Join(c.r.Header["Upgrade"], ", "))
}

// relayWebSocket brings the answer of a handshake to the agent, and then what either side sends to the other, until both have ended or the
// session has. What they send is no HTTP and is not looked into.
func (p *Pipeline) relayWebSocket(c *call, resp *http.Response, carrier io.ReadCloser) error {
	upstream, ok := carrier.(websocket.Conn)
	if !ok {
		return refusal.New("upstream_lost", "the connection to the upstream cannot carry a WebSocket")
	}
	hijacked, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		return err
	}
	defer hijacked.Close()
	agent, ok := hijacked.(websocket.Conn)
	if !ok {
		return refusal.New("client_gone", "the connection of the client cannot carry a WebSocket")
	}
	if err := writeSwitch(hijacked, resp); err != nil {
		return refusal.New("client_gone", "the client went away before it had the answer")
	}
	c.record.BytesIn, c.record.BytesOut, err = websocket.Relay(agent, upstream, p.o.Timeouts.WebSocketIdle, c.session.Life().Done())
	c.step("relay")
	return err
}

// writeSwitch writes the head of a 101 to the agent.
func writeSwitch(agent net.Conn, resp *http.Response) error {
	h := make(http.Header)
	forward.CopyHeader(h, resp)
	wire.AskWebSocket(h) // an answer says the same
	return (&http.Response{StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Header: h}).Write(agent)
}
