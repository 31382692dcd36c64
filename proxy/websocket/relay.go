// Package websocket relays WebSockets: what either side sends to the other, byte by byte. It reads no frame.
package websocket

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Conn is a connection of which each direction can end by itself.
type Conn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// closing bounds the time from the end of one direction to the end of the other.
const closing = 10 * time.Second

// relay is a WebSocket that is open.
type relay struct {
	agent, upstream Conn
	in, out         int64       // bytes from the upstream and to it
	idle            *time.Timer // begins anew with whatever comes
	limit           time.Duration
}

// Relay brings what either side sends to the other, and returns once both directions have ended: how many bytes came from
// the upstream, and how many went to it. It ends them itself once ended is closed, and if nothing has come from either side
// for limit. The error says what has ended them, if neither side has. Both connections are closed then.
func Relay(agent, upstream Conn, limit time.Duration, ended <-chan struct{}) (in, out int64, err error) {
	r := &relay{agent: agent, upstream: upstream, idle: time.NewTimer(limit), limit: limit}
	defer r.idle.Stop()
	err = r.run(ended)
	return r.in, r.out, err
}

func (r *relay) run(ended <-chan struct{}) (err error) {
	directions := make(chan error, 2)
	go func() { directions <- r.pass(r.upstream, r.agent, &r.out, lostAgent, upstream.Classify) }()
	go func() { directions <- r.pass(r.agent, r.upstream, &r.in, upstream.Classify, lostAgent) }()
	var half <-chan time.Time
	running := 2
	for running > 0 && err == nil {
		select {
		case err = <-directions:
			running--
			half = time.After(closing)
		case <-half:
			err = refusal.New("websocket_closed", "the mediator closed the WebSocket: one side had ended, and the other did not within %s", closing)
		case <-r.idle.C:
			err = refusal.New("websocket_closed", "the mediator closed the WebSocket: nothing came from either side for %s", r.limit)
		case <-ended:
			err = refusal.New("websocket_closed", "the mediator closed the WebSocket: its session has ended")
		}
	}
	_ = r.agent.Close()
	_ = r.upstream.Close()
	for ; running > 0; running-- {
		<-directions
	}
	return err
}

// bufferSize is what one record of TLS holds at most.
const bufferSize = 16 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// pass brings what from sends to its other side, and counts it in n, until from ends its direction. reading and writing name
// what fails.
func (r *relay) pass(to, from Conn, n *int64, reading, writing func(error) error) error {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	for {
		read, err := from.Read(buf[:])
		if read > 0 {
			r.idle.Reset(r.limit)
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

// lostAgent says why the connection of the agent has ended, if it is known.
func lostAgent(err error) error {
	var refused *refusal.Refusal
	if errors.As(err, &refused) {
		return err
	}
	return refusal.New("client_gone", "the connection of the client broke")
}
