package intercept

import (
	"bufio"
	"math"

	"github.com/actionproof/mediator/internal/refusal"
)

// switchedConn is the agent's connection after it has switched to another protocol. What comes is not judged any more.
type switchedConn struct{ *conn }

// Read says of a connection that a shutdown has closed that this is why.
func (s *switchedConn) Read(b []byte) (int, error) {
	n, err := s.conn.Read(b)
	if err != nil && s.p.stopping.Err() != nil {
		err = refusal.New("shutting_down", "the mediator is shutting down")
	}
	return n, err
}

// enterSwitched makes Shutdown wait for another protocol.
func (p *Proxy) enterSwitched() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return refusal.New("shutting_down", "the mediator is shutting down")
	}
	p.starting.Add(1)
	return nil
}

// switched takes the connection from net/http for another protocol. It refuses a client that has not waited for the
// answer: what it has sent may be meant as a request, if the other side does not switch.
func (c *conn) switched(read *bufio.Reader) error {
	if read.Buffered() > 0 || len(c.http1.buf) > 0 || c.http1.failed != nil {
		return refusal.New("request_malformed", "the client sent more before its handshake was answered")
	}
	c.http1 = http1Reader{from: c.Conn, pass: math.MaxInt64}
	return nil
}
