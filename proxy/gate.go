package proxy

import (
	"context"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/ledger"
)

// Gate issues challenges and verifies chains: the mediator's own gate, or an API that takes part.
type Gate interface {
	// Challenge asks for fresh work bound to exactly this operation; the gate chooses the nonce.
	Challenge(ctx context.Context, b evidence.Binding) (challenge.Challenge, error)
	// Admit verifies the whole chain and returns the capability that it earned.
	Admit(ctx context.Context, e evidence.Envelope, b evidence.Binding) (Admission, error)
	// Authorize verifies the request proof against the capability, where the gate is the mediator's own; it returns what has to
	// be consumed, durably, before the first byte goes out.
	Authorize(ctx context.Context, p Posting) (Authorization, error)
	// Presents reports whether the API reads the capability and the request proof from the forwarded call.
	Presents() bool
}

// Admission is a gate's answer to a chain that holds.
type Admission struct {
	Capability   string
	CapabilityID string
	Keys         []ledger.Key // still to be consumed by the mediator
	Checks       []ledger.Check
}

// Posting is what is verified last.
type Posting struct {
	Capability      string
	CapabilityID    string
	RequestProof    string
	Binding         evidence.Binding
	AccessTokenHash string
}

// Authorization is a gate's answer to a posting that holds.
type Authorization struct {
	Keys   []ledger.Key
	Checks []ledger.Check
}
