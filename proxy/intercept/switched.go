package intercept

import (
	"bufio"
	"math"

	"github.com/actionproof/mediator/internal/refusal"
)

// switchedConn is the agent's connection after a switch to another protocol. Nothing on it is judged.
type switchedConn struct{ *conn }

// Read reports shutting_down for a connection that a shutdown has closed.
func (s *switchedConn) Read(b []byte) (int, error) {
	n, err := s.conn.Read(b)
	if err != nil && s.p.stopping.Err() != nil {
		err = refusal.New("shutting_down", "the mediator is shutting down")
	}
	return n, err
}

func (p *Proxy) enterSwitched() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return refusal.New("shutting_down", "the mediator is shutting down")
	}
	p.starting.Add(1)
	return nil
}

// switched prepares the connection for another protocol. It refuses a client that sent more before the answer: if the
// upstream does not switch, that could be a request.
func (c *conn) switched(read *bufio.Reader) error {
	if read.Buffered() > 0 || len(c.http1.buf) > 0 || c.http1.failed != nil {
		return refusal.New("request_malformed", "the client sent more data before its handshake was answered")
	}
	c.http1 = http1Reader{from: c.Conn, pass: math.MaxInt64}
	return nil
}
