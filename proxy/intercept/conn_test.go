package intercept

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// An earlier deadline shortens the time of a write.
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
