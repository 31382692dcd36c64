package wire_test

import (
	"net/http"
	"testing"

	"github.com/actionproof/mediator/internal/wire"
)

func TestRemoveHopByHop(t *testing.T) {
	h := http.Header{"Accept": {"text/html"}, "Connection": {"X-Named , X-Absent", "X-Other"}, "X-Named": {"1"},
		"X-Other": {"2"}, "X-Stays": {"3"}}
	for _, name := range []string{
		"Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info",
		"Te",
		"Trailer",
		"Transfer-Encoding", "Upgrade", "Http2-Settings",
	} {
		h.Set(name, "x")
	}
	wire.RemoveHopByHop(h)
	if len(h) != 2 || h.Get("Accept") == "" || h.Get("X-Stays") == "" {
		t.Errorf("what is left: %v", h)
	}
}

func TestIsMethod(t *testing.T) {
	for method, want := range map[string]bool{"GET": true, "M-SEARCH": true, "": false, "get": false, "G T": false,
		"GET1": false, "GÉT": false} {
		if got := wire.IsMethod(method); got != want {
			t.Errorf("%q: %t", method, got)
		}
	}
}
