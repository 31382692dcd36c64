package intercept

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// TestWriteDeadline: an earlier deadline shortens the time of a write.
func TestWriteDeadline(t *testing.T) {
	for name, test := range map[string]struct {
		own, set time.Duration
	}{
		"none is set":    {time.Millisecond, 0},
		"a later one":    {time.Millisecond, time.Hour},
		"an earlier one": {time.Hour, time.Millisecond},
	} {
		client, server := net.Pipe()
		s := &socket{Conn: server}
		s.conn = &conn{p: &Proxy{o: Options{Limits: Limits{WriteTimeout: test.own}, Now: time.Now}}}
		if test.set != 0 {
			_ = s.SetWriteDeadline(time.Now().Add(test.set))
		}
		ended := make(chan error, 1)
		go func() { _, err := s.Write([]byte("x")); ended <- err }()
		select {
		case err := <-ended:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: still being written", name)
		}
		_ = client.Close()
		_ = server.Close()
	}
}

// TestPeekLeavesAll: what comes with the first byte, and what comes after, is read once, in order, and not held on to.
func TestPeekLeavesAll(t *testing.T) {
	for _, sent := range []string{"x", "first", strings.Repeat("0123456789", 1000)} {
		client, server := net.Pipe()
		go func() {
			_, _ = io.WriteString(client, sent)
			_, _ = io.WriteString(client, "more")
			_ = client.Close()
		}()
		c := &socket{Conn: server}
		if first, err := c.peek(1); err != nil || string(first) != sent[:1] {
			t.Fatalf("peeked %q, %v", first, err)
		}
		got, err := io.ReadAll(c)
		if want := sent + "more"; err != nil || string(got) != want {
			t.Errorf("read %d bytes of %d, %v", len(got), len(want), err)
		}
		if c.unread != nil {
			t.Error("what has been read is kept")
		}
	}
}
