package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/upstream"
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

// closing bounds the time from the end of one direction of a WebSocket to the end of the other.
const closing = 10 * time.Second

// relayWebSocket brings the answer of a handshake to the agent, and then what either side sends to the other, until both have ended or the
// session has. What they send is no HTTP and is not looked into.
func (p *Pipeline) relayWebSocket(c *call, resp *http.Response) error {
	w := &webSocket{idle: time.NewTimer(p.o.Timeouts.WebSocketIdle), limit: p.o.Timeouts.WebSocketIdle}
	defer w.idle.Stop()
	var ok bool
	if w.upstream, ok = resp.Body.(duplex); !ok {
		return refusal.New("upstream_lost", "the connection to the upstream cannot carry a WebSocket")
	}
	agent, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		return err
	}
	defer agent.Close()
	if w.agent, ok = agent.(duplex); !ok {
		return refusal.New("client_gone", "the connection of the client cannot carry a WebSocket")
	}
	if err := writeSwitch(agent, resp); err != nil {
		return refusal.New("client_gone", "the client went away before it had the answer")
	}
	err = w.relay(c.session.Ended())
	c.record.BytesIn, c.record.BytesOut = w.in, w.out
	c.step("relay")
	return err
}

// writeSwitch writes the head of a 101 to the agent.
func writeSwitch(agent net.Conn, resp *http.Response) error {
	h := make(http.Header)
	copyResponseHeader(h, resp)
	wire.AskWebSocket(h) // an answer says the same
	return (&http.Response{StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Header: h}).Write(agent)
}

// duplex is a connection of which each direction can end by itself.
type duplex interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// webSocket is one that is open.
type webSocket struct {
	agent, upstream duplex
	in, out         int64       // bytes from the upstream and to it
	idle            *time.Timer // begins anew with whatever comes
	limit           time.Duration
}

// relay returns once both directions have ended. The error says what has ended them, if neither side has.
func (w *webSocket) relay(ended <-chan struct{}) (err error) {
	directions := make(chan error, 2)
	go func() { directions <- w.pass(w.upstream, w.agent, &w.out, lostAgent, lostUpstream) }()
	go func() { directions <- w.pass(w.agent, w.upstream, &w.in, lostUpstream, lostAgent) }()
	var half <-chan time.Time
	running := 2
	for running > 0 && err == nil {
		select {
		case err = <-directions:
			running--
			half = time.After(closing)
		case <-half:
			err = refusal.New("websocket_closed", "the mediator closed the WebSocket: one side had ended, and the other did not within %s", closing)
		case <-w.idle.C:
			err = refusal.New("websocket_closed", "the mediator closed the WebSocket: nothing came from either side for %s", w.limit)
		case <-ended:
			err = refusal.New("websocket_closed", "the mediator closed the WebSocket: its session has ended")
		}
	}
	_ = w.agent.Close()
	_ = w.upstream.Close()
	for ; running > 0; running-- {
		<-directions
	}
	return err
}

// pass brings what from sends to its other side, and counts it in n, until from ends its direction. reading and writing name what fails.
func (w *webSocket) pass(to, from duplex, n *int64, reading, writing func(error) error) error {
	buf := relayBuffers.Get().(*[relayBufferSize]byte)
	defer relayBuffers.Put(buf)
	for {
		read, err := from.Read(buf[:])
		if read > 0 {
			w.idle.Reset(w.limit)
			written, werr := to.Write(buf[:read])
			*n += int64(written)
			if werr != nil {
				return writing(werr)
			}
		}
		if err == io.EOF { //nolint:errorlint // io.Reader's contract
			_ = to.CloseWrite()
			return nil
		}
		if err != nil {
			return reading(err)
		}
	}
}

func lostUpstream(err error) error { return upstream.Classify(err) }

// lostAgent says why the connection of the agent has ended, if it is known.
func lostAgent(err error) error {
	var refused *refusal.Refusal
	if errors.As(err, &refused) {
		return err
	}
	return refusal.New("client_gone", "the connection of the client broke")
}
