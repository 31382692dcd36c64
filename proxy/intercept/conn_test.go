package intercept

import (
	"io"
	"net"
	"strings"
	"testing"
)

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
