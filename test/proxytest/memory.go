package proxytest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// memory listens for connections in memory, whose deadlines follow a synctest bubble's clock.
type memory struct {
	waiting chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func newMemory() *memory {
	return &memory{waiting: make(chan net.Conn, 64), closed: make(chan struct{})}
}

func (m *memory) dial() net.Conn {
	there, back := newStream(), newStream()
	m.waiting <- &end{in: there, out: back}
	return &end{in: back, out: there}
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.waiting:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

func (m *memory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

type end struct{ in, out *stream }

func (e *end) Read(b []byte) (int, error)  { return e.in.read(b) }
func (e *end) Write(b []byte) (int, error) { return e.out.write(b) }

func (e *end) CloseWrite() error {
	e.out.change(func(s *stream) { s.ended = true })
	return nil
}

func (e *end) Close() error {
	e.in.change(func(s *stream) { s.left = true })
	return e.CloseWrite()
}

func (e *end) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (e *end) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }

func (e *end) SetDeadline(at time.Time) error {
	_ = e.SetReadDeadline(at)
	return e.SetWriteDeadline(at)
}

func (e *end) SetReadDeadline(at time.Time) error {
	e.in.change(func(s *stream) { s.readBy.set(s, at) })
	return nil
}

func (e *end) SetWriteDeadline(at time.Time) error {
	e.out.change(func(s *stream) { s.writeBy.set(s, at) })
	return nil
}

// stream carries bytes in one direction and holds as many as a socket.
type stream struct {
	mu              sync.Mutex // guards all below
	changed         *sync.Cond
	held            []byte
	ended, left     bool // the writer has ended it; the reader has closed it
	readBy, writeBy deadline
}

const most = 64 << 10

func newStream() *stream {
	s := new(stream)
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *stream) change(do func(*stream)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s)
	s.changed.Broadcast()
}

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.left:
			return 0, net.ErrClosed
		case s.readBy.over():
			return 0, os.ErrDeadlineExceeded
		case len(s.held) > 0:
			n := copy(b, s.held)
			s.held = s.held[n:]
			s.changed.Broadcast()
			return n, nil
		case s.ended:
			return 0, io.EOF
		}
		s.changed.Wait()
	}
}

func (s *stream) write(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.ended:
			return n, net.ErrClosed
		case s.left:
			return n, io.ErrClosedPipe
		case s.writeBy.over():
			return n, os.ErrDeadlineExceeded
		case n == len(b):
			return n, nil
		}
		if room := min(most-len(s.held), len(b)-n); room > 0 {
			s.held = append(s.held, b[n:n+room]...)
			n += room
			s.changed.Broadcast()
			continue
		}
		s.changed.Wait()
	}
}

// deadline wakes the waiters when it is over.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) set(s *stream, at time.Time) {
	if d.timer != nil {
		d.timer.Stop()
	}
	if d.at = at; !at.IsZero() {
		d.timer = time.AfterFunc(time.Until(at), func() { s.change(func(*stream) {}) })
	}
}

func (d *deadline) over() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }
