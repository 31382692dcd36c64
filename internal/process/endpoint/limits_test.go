package endpoint

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/logs"
	"github.com/actionproof/mediator/test/check"
)

// strangersLog is a log that counts the bytes of its lines.
func strangersLog(t *testing.T) (log *zap.Logger, size func() int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	check.Must(t, err)
	t.Cleanup(func() { f.Close() })
	if log, err = logs.New(config.Log{}, "trigger", f); err != nil {
		t.Fatal(err)
	}
	return log, func() int64 {
		info, err := os.Stat(path)
		check.Must(t, err)
		return info.Size()
	}
}

// publicServer serves "in" within the limits, over TLS if it is configured, and holds each request for "/hold" until
// release is called.
func publicServer(t *testing.T, limits Limits, over *tls.Config, log *zap.Logger) (port string, holding chan struct{},
	release func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	_, port, _ = net.SplitHostPort(l.Addr().String())
	if over != nil {
		l = tls.NewListener(l, over)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done, held := make(chan error, 1), make(chan struct{})
	holding = make(chan struct{}, 100)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			holding <- struct{}{}
			<-held
		}
		_, _ = io.WriteString(w, "in")
	})
	go func() { done <- Serve(ctx, l, h, limits, time.Minute, log) }()
	release = func() { close(held) }
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return port, holding, release
}

func dial(t *testing.T, from, port string) net.Conn {
	t.Helper()
	d := net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	check.Must(t, err)
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

func ask(c net.Conn, path string) (int, error) {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		return 0, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// ended waits until the other side has closed a connection.
func ended(c net.Conn) error {
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the connection is open still: %w", err)
	}
	return nil
}

func TestSilentConnectionsGiveWay(t *testing.T) {
	secure := httptest.NewTLSServer(nil)
	defer secure.Close()
	for name, over := range map[string]*tls.Config{"HTTP": nil,
		"HTTPS": {Certificates: secure.TLS.Certificates, MinVersion: tls.VersionTLS12}} {
		t.Run(name, func(t *testing.T) { silentConnectionsGiveWay(t, over) })
	}
}

func silentConnectionsGiveWay(t *testing.T, over *tls.Config) {
	log, size := strangersLog(t)
	port, _, _ := publicServer(t, Limits{Connections: 20, PerAddress: 10, Header: time.Hour, Request: time.Hour}, over,
		log)
	var silent []net.Conn
	for _, from := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"} {
		for range 100 {
			silent = append(silent, dial(t, from, port))
		}
	}
	for _, from := range []string{"127.0.0.4", "127.0.0.5"} {
		c := dial(t, from, port)
		if over != nil {
			c = tls.Client(c, &tls.Config{InsecureSkipVerify: true}) // which certificate it is does not matter here
		}
		if status, err := ask(c, "/"); status != http.StatusOK {
			t.Errorf("from %s: %d, %v", from, status, err)
		}
	}
	for _, c := range silent[:90] { // of the first address the oldest 90
		check.Must(t, ended(c))
	}
	if n := size(); n > 4*flood.Lines*500 {
		t.Errorf("the log has %d bytes", n)
	}
}

func TestConnectionsOfAnAddress(t *testing.T) {
	log, _ := strangersLog(t)
	port, holding, release := publicServer(t, Limits{Connections: 5, PerAddress: 3}, nil, log)
	answers := make(chan error, 3)
	for range 3 {
		c := dial(t, "127.0.0.2", port)
		go func() {
			status, err := ask(c, "/hold")
			if status != http.StatusOK {
				err = fmt.Errorf("%d, %w", status, err)
			}
			answers <- err
		}()
		<-holding
	}
	if err := ended(dial(t, "127.0.0.2", port)); err != nil {
		t.Errorf("a fourth connection of the address: %v", err)
	}
	other := dial(t, "127.0.0.3", port)
	for range 3 { // on one connection, which is silent in between
		if status, err := ask(other, "/"); status != http.StatusOK {
			t.Errorf("from another address: %d, %v", status, err)
		}
	}
	release()
	for range 3 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if status, err := ask(dial(t, "127.0.0.2", port), "/"); status != http.StatusOK {
		t.Errorf("once there is a place: %d, %v", status, err)
	}
}

func TestSlowRequestsGiveWay(t *testing.T) { synctest.Test(t, slowRequestsGiveWay) }

func slowRequestsGiveWay(t *testing.T) {
	l := newBoundedListener(nil, Limits{Connections: 3, PerAddress: 2, Request: time.Hour}, zap.NewNop())
	at := func(from string, handling time.Duration) *boundedConn {
		c := connection(t, l, from)
		if handling > 0 {
			c.handling = time.Now().Add(-handling)
		}
		return c
	}
	slow, slower := at("10.0.0.1", 2*patience), at("10.0.0.2", 3*patience)
	for _, c := range []*boundedConn{slow, slower, at("10.0.0.3", time.Millisecond)} {
		l.admit(c)
	}
	for i, c := range []struct {
		next   *boundedConn
		victim *boundedConn
	}{{at("10.0.0.4", time.Millisecond), slow}, {at("10.0.0.4", time.Millisecond), slower}} {
		if !l.admit(c.next) {
			t.Fatalf("%d: refused", i)
		}
		if !c.victim.isCut() {
			t.Errorf("%d: the slow one is open still", i)
		}
	}
	if l.admit(at("10.0.0.4", 0)) {
		t.Error("a third connection of an address whose two are busy was admitted")
	}
}

func TestNewConnectionsHaveTime(t *testing.T) {
	for name, limits := range map[string]Limits{
		"a public port": {Connections: 2, PerAddress: 2, Request: time.Hour},
		"an endpoint":   {Connections: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newBoundedListener(nil, limits, zap.NewNop())
				began, newcomer := time.Now(), connection(t, l, "10.0.0.1")
				l.admit(newcomer)
				busy := connection(t, l, "10.0.0.2")
				l.admit(busy)
				busy.setHandling(time.Now())
				if !l.admit(connection(t, l, "10.0.0.3")) {
					t.Fatal("refused")
				}
				if waited := time.Since(began); waited != arrival {
					t.Errorf("a third connection waited %s, want %s", waited, arrival)
				}
				if !newcomer.isCut() || busy.isCut() {
					t.Error("the wrong connection was closed")
				}
			})
		})
	}
}

// TestEndpointsStayOpen: requests of one caller that never end, such as half a body, keep no other caller out.
func TestEndpointsStayOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBoundedListener(nil, endpointLimits, zap.NewNop())
		stop := time.AfterFunc(time.Minute, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.closed = true
		})
		for range endpointLimits.Connections {
			if c := connection(t, l, "10.0.0.1"); l.admit(c) {
				c.setHandling(time.Now())
			}
		}
		if !l.admit(connection(t, l, "10.0.0.2")) {
			t.Error("another caller is kept out")
		}
		stop.Stop()
	})
}

func TestAddressesWithManyConnections(t *testing.T) {
	for name, c := range map[string]struct {
		mine, others int
		busy         bool // whether my connections, and not those of the other address, have a request
		admitted     bool
		closed       int // of the other address
	}{
		"the other address has fewer":         {mine: 3, others: 1, busy: true},
		"as many":                             {mine: 2, others: 2, busy: true, admitted: true, closed: 1},
		"the other address has more":          {mine: 1, others: 3, busy: true, admitted: true, closed: 1},
		"none of mine":                        {mine: 0, others: 4, admitted: true, closed: 1},
		"mine are silent, and the others few": {mine: 3, others: 1, admitted: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newBoundedListener(nil, Limits{Connections: 4, PerAddress: 4, Request: time.Hour}, zap.NewNop())
				var others []*boundedConn
				for range c.others {
					others = append(others, connection(t, l, "10.0.0.2"))
					l.admit(others[len(others)-1])
				}
				for range c.mine {
					mine := connection(t, l, "10.0.0.1")
					l.admit(mine)
					if c.busy {
						mine.setHandling(time.Now())
					}
				}
				time.Sleep(arrival)
				began := time.Now()
				if admitted := l.admit(connection(t, l, "10.0.0.1")); admitted != c.admitted {
					t.Errorf("admitted: %t", admitted)
				}
				if waited := time.Since(began); waited > 0 {
					t.Errorf("it waited %s", waited)
				}
				closed := 0
				for _, o := range others {
					if o.isCut() {
						closed++
					}
				}
				if closed != c.closed {
					t.Errorf("%d connections of the other address were closed, want %d", closed, c.closed)
				}
			})
		})
	}
}

func connection(t *testing.T, l *boundedListener, from string) *boundedConn {
	t.Helper()
	one, other := net.Pipe()
	t.Cleanup(func() { one.Close(); other.Close() })
	return &boundedConn{Conn: one, l: l, from: addressOf(fromAddress{one, from})}
}

func (c *boundedConn) isCut() bool { return errors.Is(c.SetDeadline(time.Time{}), io.ErrClosedPipe) }

// TestBodiesThatDoNotCome floods a server from a few addresses with requests whose bodies never come, and makes slow
// deliveries from another address.
func TestBodiesThatDoNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := &pipeListener{waiting: make(chan net.Conn, 4096), closed: make(chan struct{})}
		read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				_, _ = io.WriteString(w, "in")
			}
		})
		limits := Limits{Connections: 24, PerAddress: 8, Header: 10 * time.Second, Request: 20 * time.Second}
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, l, read, limits, time.Second, zap.NewNop()) }()
		const header = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
		var flood sync.WaitGroup
		for i := range 64 {
			flood.Go(func() {
				for ctx.Err() == nil {
					c := l.dial(fmt.Sprintf("10.0.0.%d", i%4))
					_ = c.SetDeadline(time.Now().Add(patience - time.Second/2)) // gone before it can be closed
					if _, err := io.WriteString(c, header); err == nil {
						_ = ended(c)
					}
					c.Close()
					time.Sleep(time.Second / 20)
				}
			})
		}
		time.Sleep(time.Second)
		for i := range 10 {
			c := l.dial("10.0.1.1")
			_ = c.SetDeadline(time.Now().Add(limits.Header))
			for _, part := range []string{header[:20], header[20:], "hi"} {
				time.Sleep(time.Second / 10)
				if _, err := io.WriteString(c, part); err != nil {
					t.Errorf("delivery %d: %v", i, err)
				}
			}
			if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil ||
				answer.StatusCode != http.StatusOK {
				t.Errorf("delivery %d: %v", i, err)
			}
			c.Close()
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		flood.Wait()
	})
}

type pipeListener struct {
	waiting chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (l *pipeListener) dial(from string) net.Conn {
	here, there := net.Pipe()
	l.waiting <- fromAddress{there, from}
	return here
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.waiting:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

type fromAddress struct {
	net.Conn
	from string
}

func (c fromAddress) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 1} }

func TestAddressOf(t *testing.T) {
	for from, want := range map[string]string{"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::"} {
		if got := addressOf(fromAddress{nil, from}); got.String() != want {
			t.Errorf("%s counts as %s, want %s", from, got, want)
		}
	}
}

func TestEndpointOverTCP(t *testing.T) {
	e := config.Endpoint{TCP: "127.0.0.1:0"}
	if _, err := Listen(e, nil, zap.NewNop()); err == nil {
		t.Error("it opens without a certificate")
	}
	l, err := Listen(e, new(identity.Identity), zap.NewNop())
	check.Must(t, err)
	defer l.Close()
	dial(t, "127.0.0.1", fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
	c, err := l.Accept()
	check.Must(t, err)
	defer c.Close()
	if boundedOf(context.WithValue(t.Context(), connKey{}, c)) == nil {
		t.Errorf("%T has no bounds", c)
	}
}

func TestListenerEnds(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	l := newBoundedListener(inner, Limits{Connections: 1}, zap.NewNop())
	port := fmt.Sprint(inner.Addr().(*net.TCPAddr).Port)
	dial(t, "127.0.0.1", port)
	c, err := l.Accept()
	check.Must(t, err)
	defer c.Close()
	c.(*boundedConn).setHandling(time.Now())
	dial(t, "127.0.0.1", port)
	done := make(chan error, 1)
	go func() { _, err := l.Accept(); done <- err }()
	l.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestSocketStrangers(t *testing.T) {
	log, size := strangersLog(t)
	path := filepath.Join(t.TempDir(), "socket")
	inner, err := Listen(config.Endpoint{Unix: path, UIDs: []uint32{1}}, nil, log)
	check.Must(t, err)
	inner.(*peerListener).allowed = nil // not even this one
	done := make(chan struct{})
	go func() { defer close(done); _, _ = inner.Accept() }()
	for range 2000 {
		c, err := net.Dial("unix", path)
		check.Must(t, err)
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		check.Must(t, ended(c))
		c.Close()
	}
	inner.Close()
	<-done
	if n := size(); n == 0 || n > flood.Lines*500 {
		t.Errorf("2000 connections left %d bytes in the log", n)
	}
}

func TestLinesOfStrangersAreCounted(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	l := newBoundedListener(nil, Limits{Connections: 1, PerAddress: 1}, zap.New(core))
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	busy := &boundedConn{Conn: one, l: l, handling: time.Now()}
	l.admit(busy)
	for range 3 * flood.Lines {
		if l.admit(&boundedConn{Conn: one, l: l}) {
			t.Fatal("admitted")
		}
	}
	if n := logs.Len(); n != flood.Lines {
		t.Errorf("%d lines, want %d", n, flood.Lines)
	}
}
