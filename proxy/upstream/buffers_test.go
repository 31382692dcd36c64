package upstream_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	xhttp2 "golang.org/x/net/http2"
)

func wantSettings(t *testing.T, framer *xhttp2.Framer, want ...xhttp2.Setting) {
	t.Helper()
	frame, err := framer.ReadFrame()
	must(t, err)
	settings, ok := frame.(*xhttp2.SettingsFrame)
	if !ok {
		t.Fatalf("the first frame is %s", frame)
	}
	for _, w := range want {
		if got, ok := settings.Value(w.ID); !ok || got != w.Val {
			t.Errorf("got %s %d, want %d", w.ID, got, w.Val)
		}
	}
}

// With net/http's own bounds, what one side may send ahead would add up to gigabytes.
func TestHTTP2Buffers(t *testing.T) {
	t.Run("of an agent", func(t *testing.T) {
		r := newRig(t, nil)
		c, err := r.Tunnel("a.example:443", "a.example", http2)
		must(t, err)
		defer c.Close()
		wantSettings(t, newFrames(t, c).Framer, xhttp2.Setting{ID: xhttp2.SettingMaxFrameSize, Val: 16 << 10},
			xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 256 << 10})
	})
	t.Run("of an upstream", func(t *testing.T) {
		seen := make(chan struct{})
		up := httptest.NewUnstartedServer(http.NotFoundHandler())
		up.TLS = &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
		up.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn,
			http.Handler){"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
			defer close(seen)
			_, err := io.CopyN(io.Discard, c, int64(len(xhttp2.ClientPreface)))
			must(t, err)
			framer := xhttp2.NewFramer(c, c)
			wantSettings(t, framer, xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 512 << 10})
			for frame := xhttp2.Frame(nil); err == nil &&
				(frame == nil || frame.Header().Type != xhttp2.FrameHeaders); {
				frame, err = framer.ReadFrame() // a connection that ends before the request would be made again
			}
		}}
		up.StartTLS()
		defer up.Close()
		r, err := http.NewRequest(http.MethodGet, "https://"+at(0, up), nil)
		must(t, err)
		_, err = newTestTransport(t, up).RoundTrip(r)
		wantCode(t, err, "upstream_lost")
		<-seen
	})
}
