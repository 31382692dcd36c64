package wire_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/test/check"
)

func TestAcceptedTravels(t *testing.T) {
	for name, said := range map[string][]string{
		"nothing is said": nil, "some": {"a:v2", "a:v1"}, "odd ones": {"a, b:v1", "\u2028\n%2C:v3", "é:v1"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			var known bool
			server := httptest.NewServer(wire.Handle(func(ctx context.Context, _ struct{}) (struct{}, error) {
				got, known = evidence.Accepted(ctx)
				return struct{}{}, nil
			}))
			defer server.Close()
			ctx := t.Context()
			if said != nil {
				ctx = evidence.WithAccepted(ctx, said)
			}
			var done struct{}
			p := wire.Peer{HTTP: http.DefaultClient, Name: "the server", Unavailable: "process_unavailable"}
			check.Must(t, p.Call(ctx, server.URL, struct{}{}, &done))
			if known != (said != nil) || !slices.Equal(got, said) {
				t.Errorf("said %q, got %q, %v", said, got, known)
			}
		})
	}
}
