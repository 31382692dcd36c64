package accrual

import (
	"fmt"
	"strings"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
)

// Agent identifies an agent: a subject of an owner, such as agent:worker-1. Owner is the thumbprint of the key registry
// (see [interaction.Owner]). An agent without a sidecar has an empty Owner, and a did:key as Subject.
type Agent struct {
	Owner   string
	Subject string
}

const (
	thumbprintChars = 43  // base64url of a SHA-256
	maxSubject      = 256 // bytes, as in receipts
)

// String returns the agent's id: the owner's thumbprint, a colon, and the subject; or the did:key.
func (a Agent) String() string {
	if a.Owner == "" {
		return a.Subject
	}
	return a.Owner + ":" + a.Subject
}

// ParseAgent reads what [Agent.String] writes.
func ParseAgent(id string) (Agent, error) {
	a := Agent{Subject: id}
	if !strings.HasPrefix(id, "did:") {
		a.Owner, a.Subject, _ = strings.Cut(id, ":")
	}
	if err := a.check(); err != nil {
		return Agent{}, err
	}
	if a.String() != id {
		return Agent{}, fmt.Errorf("accrual: the agent id %.80q names no owner", id)
	}
	return a, nil
}

// Key returns the key of an agent that has no owner.
func (a Agent) Key() (key ed25519.PublicKey, ok bool) {
	if a.Owner != "" {
		return nil, false
	}
	key, err := evidence.ParseDIDKey(a.Subject)
	return key, err == nil
}

// SameOwner reports whether two agents may belong to one owner. An agent without a sidecar may belong to anyone.
func (a Agent) SameOwner(b Agent) bool { return a.Owner == "" || b.Owner == "" || a.Owner == b.Owner }

func (a Agent) check() error {
	if a.Owner == "" {
		if _, err := evidence.ParseDIDKey(a.Subject); err != nil {
			return fmt.Errorf("accrual: the agent id %.80q is neither an owner and a subject nor a did:key: %w", a.String(), err)
		}
		return nil
	}
	if len(a.Owner) != thumbprintChars || strings.Contains(a.Owner, ":") {
		return fmt.Errorf("accrual: the agent id %.80q does not start with an owner's thumbprint", a.String())
	}
	if a.Subject == "" || len(a.Subject) > maxSubject {
		return fmt.Errorf("accrual: the subject in the agent id %.80q is empty or longer than %d bytes", a.String(),
			maxSubject)
	}
	return nil
}
