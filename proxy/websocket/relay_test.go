package websocket_test

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/proxy/websocket"
	"github.com/actionproof/mediator/test/check"
)

// half is one side of a WebSocket in memory.
type half struct {
	*io.PipeReader
	*io.PipeWriter
}

func (h half) Close() error      { return errors.Join(h.PipeReader.Close(), h.PipeWriter.Close()) }
func (h half) CloseWrite() error { return h.PipeWriter.Close() }

// newHalves returns both ends of a connection in memory.
func newHalves() (ours, theirs half) {
	in, toIn := io.Pipe()
	out, toOut := io.Pipe()
	return half{in, toOut}, half{out, toIn}
}

func TestRelayEndsInTime(t *testing.T) {
	const limit, closing = time.Minute, 10 * time.Second
	for _, tt := range []struct {
		name string
		run  func(agent, upstream half)
		took time.Duration
		why  string
	}{
		{"nothing comes", func(half, half) {}, limit, "neither side"},
		{"something comes from the upstream", func(agent, upstream half) {
			go func() { _, _ = io.Copy(io.Discard, agent) }()
			for range 5 {
				time.Sleep(limit - 1)
				_, _ = io.WriteString(upstream, "x")
			}
		}, 5*(limit-1) + limit, "neither side"},
		{"the upstream does not end", func(agent, _ half) { _ = agent.CloseWrite() }, closing,
			"the other side did not end"},
		{"the agent does not end, and goes on", func(agent, upstream half) {
			_ = upstream.CloseWrite()
			go func() { _, _ = io.Copy(io.Discard, upstream) }()
			for {
				if _, err := io.WriteString(agent, "x"); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, closing, "the other side did not end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				agent, theirs := newHalves()
				upstream, other := newHalves()
				began := time.Now()
				var running sync.WaitGroup
				running.Go(func() { tt.run(theirs, other) })
				_, _, err := websocket.Relay(t.Context(), agent, upstream, limit)
				if took := time.Since(began); took != tt.took || check.CodeOf(err) != "websocket_closed" ||
					!strings.Contains(err.Error(), tt.why) {
					t.Errorf("ended after %s: %v", took, err)
				}
				_ = errors.Join(theirs.Close(), other.Close())
				running.Wait()
			})
		})
	}
}
