package wire_test

import (
	"net/http/httptest"
	"testing"

	"github.com/actionproof/mediator/internal/wire"
)

// BenchmarkCall calls another process over a kept connection, without work there.
func BenchmarkCall(b *testing.B) {
	s := httptest.NewServer(wire.Handle(double))
	defer s.Close()
	p := wire.Peer{HTTP: s.Client(), Name: "the peer", Unavailable: "gate_unavailable"}
	b.ReportAllocs()
	for b.Loop() {
		var answer ask
		if err := p.Call(b.Context(), s.URL, ask{4}, &answer); err != nil {
			b.Fatal(err)
		}
	}
}
