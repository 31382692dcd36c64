// Package websocket relays the bytes of a WebSocket in both directions. It parses no frames.
package websocket

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Conn is a connection whose directions can end separately.
type Conn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// closing bounds the time between the ends of the two directions.
const closing = 10 * time.Second

type relay struct {
	agent, upstream Conn
	in, out         int64       // bytes from the upstream, and to it
	idle            *time.Timer // restarts with each piece that arrives
	limit           time.Duration
}

// Relay copies both directions until both have ended, and closes the connections. It also ends them when ctx ends, or
// when neither side has sent anything for limit. It returns the bytes from the upstream and to it, and an
// error if neither side ended the WebSocket properly.
func Relay(ctx context.Context, agent, upstream Conn, limit time.Duration) (in, out int64, err error) {
	r := &relay{agent: agent, upstream: upstream, idle: time.NewTimer(limit), limit: limit}
	defer r.idle.Stop()
	err = r.run(ctx)
	return r.in, r.out, err
}

func (r *relay) run(ctx context.Context) (err error) {
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
			err = closed("the other side did not end within %s of the first", closing)
		case <-r.idle.C:
			err = closed("neither side sent anything for %s", r.limit)
		case <-ctx.Done():
			if err = context.Cause(ctx); errors.Is(err, context.Canceled) {
				err = closed("its session has ended")
			}
		}
	}
	_ = r.agent.Close()
	_ = r.upstream.Close()
	for ; running > 0; running-- {
		<-directions
	}
	return err
}

func closed(why string, args ...any) error {
	return refusal.New("websocket_closed", "the mediator closed the WebSocket: "+why, args...)
}

// bufferSize is the largest payload of a TLS record.
const bufferSize = 16 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// pass copies one direction until from ends it, and counts its bytes in n. reading and writing classify the errors of
// the two sides.
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

func lostAgent(err error) error {
	var refused *refusal.Refusal
	if errors.As(err, &refused) {
		return err
	}
	return refusal.New("client_gone", "the connection of the client broke")
}
