package rules

import (
	"context"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/gate/challenge"
)

// Gate issues challenges and verifies chains. It is a [gate.Gate] in this process, or the [gate.Client] of an API that
// takes part.
type Gate interface {
	// Challenge asks for fresh work bound to this operation. The gate chooses the nonce.
	Challenge(ctx context.Context, b evidence.Binding) (challenge.Challenge, error)
	// Admit verifies the whole chain. It returns a capability, and keys that the caller must consume.
	Admit(ctx context.Context, r gate.AdmitRequest) (gate.Admission, error)
	// Authorize verifies the request proof against the capability, if the gate is in this process. The caller must
	// durably consume the returned keys before it sends the first byte.
	Authorize(ctx context.Context, r gate.AuthorizeRequest) (gate.Authorization, error)
}
