package wire

import (
	"context"

	"github.com/actionproof/mediator/internal/refusal"
)

// Caller is the sender of a request over TLS, by its certificate.
type Caller struct {
	ID      string // its SPIFFE id
	Runtime string // the only runtime that it may speak for: the path of the id
}

type callerKey struct{}

// WithCaller returns the context of a request over TLS.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns who sent a request. ok is false over a unix socket, where the kernel has judged the user.
func CallerOf(ctx context.Context) (c Caller, ok bool) {
	c, ok = ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// CheckRuntime refuses (runtime_foreign) a request over TLS for another runtime than the caller's.
func CheckRuntime(ctx context.Context, runtime string) error {
	if c, ok := CallerOf(ctx); ok && c.Runtime != runtime {
		return refusal.New("runtime_foreign", "%s asks for the runtime %.200q, but may ask only for %s", c.ID, runtime,
			c.Runtime)
	}
	return nil
}
