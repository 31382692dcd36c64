package proxy

import (
	"context"
	"net/http"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/websocket"
)

type socketCall struct{ plain }

// upgrade admits a WebSocket handshake that an egress rule allows. It refuses every other change of protocol.
func (c *call) upgrade(to *rules.Endpoint) error {
	asks := wire.NamesWebSocket(c.r.Header)
	if asks && to != nil && to.WebSocket() {
		c.conversation = socketCall{plain{c}}
		return wire.CheckWebSocket(c.r)
	}
	if asks && c.p.o.HangUp {
		c.stage = hungUp
	}
	return refusal.New("egress_denied", "the call asks to switch to protocol %.40q; no rule allows that",
		strings.Join(c.r.Header["Upgrade"], ", "))
}

func (m socketCall) choose(among []rules.Rule) (rules.Rule, error) {
	m.record.Rule = among[0].Egress.Name
	return among[0], m.slot.Socket()
}

func (m socketCall) sent(out *http.Request) (*http.Request, error) {
	wire.AskWebSocket(out.Header)
	return out, nil
}

// answer relays the answer to a handshake, and then both sides' traffic until both end, the session ends or
// the rule expires. The traffic is not HTTP and not inspected.
func (m socketCall) answer(ctx context.Context, resp *http.Response) error {
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return m.relay(ctx, resp)
	}
	m.answers()
	upstream, ok := resp.Body.(websocket.Conn)
	if !ok {
		return refusal.New("upstream_lost", "the connection to the upstream cannot carry a WebSocket")
	}
	hijacked, _, err := http.NewResponseController(m.w).Hijack()
	if err != nil {
		return err
	}
	defer hijacked.Close()
	agent, ok := hijacked.(websocket.Conn)
	if !ok {
		return refusal.New("client_gone", "the connection of the client cannot carry a WebSocket")
	}
	if err := forward.Switch(hijacked, resp); err != nil {
		return refusal.New("client_gone", "the client went away before it had the answer")
	}
	valid, stop := m.purpose.Until(m.session.Life(), m.record.Rule, m.p.o.Now())
	defer stop()
	m.record.BytesIn, m.record.BytesOut, err = websocket.Relay(valid, agent, upstream, m.p.o.Timeouts.WebSocketIdle)
	m.step("relay")
	return err
}
