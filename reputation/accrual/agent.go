package accrual

import (
	"fmt"
	"strings"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
)

// Agent is who has a reputation. It is a subject, such as agent:worker-1, of one owner, who is named by the thumbprint of the key registry
// that certifies its sidecars (package interaction, Owner); another key of its sidecar changes nothing. Or it is an agent elsewhere, behind no
// sidecar that the node knows: then Owner is empty, and Subject is the did:key of its own Ed25519 key. Nobody knows whose such an agent is.
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

// Key returns the key of an agent elsewhere. An agent of an owner has none of its own.
func (a Agent) Key() (key ed25519.PublicKey, ok bool) {
	if a.Owner != "" {
		return nil, false
	}
	key, err := evidence.ParseDIDKey(a.Subject)
	return key, err == nil
}

// SameOwner reports whether two agents may belong to one owner. Of an agent elsewhere nobody knows that they do not.
func (a Agent) SameOwner(b Agent) bool { return a.Owner == "" || b.Owner == "" || a.Owner == b.Owner }

func (a Agent) check() error {
	if a.Owner == "" {
		if _, err := evidence.ParseDIDKey(a.Subject); err != nil {
			return fmt.Errorf("accrual: the agent id %.80q names neither an owner and a subject nor a key: %w", a.String(), err)
		}
		return nil
	}
	if len(a.Owner) != thumbprintChars || strings.Contains(a.Owner, ":") {
		return fmt.Errorf("accrual: the agent id %.80q does not begin with the thumbprint of an owner", a.String())
	}
	if a.Subject == "" || len(a.Subject) > maxSubject {
		return fmt.Errorf("accrual: the agent id %.80q names no subject of at most %d bytes", a.String(), maxSubject)
	}
	return nil
}
