package accrual

import (
	"fmt"
	"strings"
)

// Agent is who has a reputation: a subject, such as agent:worker-1, of one owner. The owner is named by the thumbprint of the key registry that
// certifies its sidecars (package interaction, Owner). An agent is no key: another key of its sidecar changes nothing.
type Agent struct {
	Owner   string
	Subject string
}

const (
	thumbprintChars = 43  // base64url of a SHA-256
	maxSubject      = 256 // bytes, as in receipts
)

// String returns the agent's id: the owner's thumbprint, a colon, and the subject.
func (a Agent) String() string { return a.Owner + ":" + a.Subject }

// ParseAgent reads what [Agent.String] writes.
func ParseAgent(id string) (Agent, error) {
	owner, subject, _ := strings.Cut(id, ":")
	a := Agent{Owner: owner, Subject: subject}
	if err := a.check(); err != nil {
		return Agent{}, err
	}
	return a, nil
}

func (a Agent) check() error {
	if len(a.Owner) != thumbprintChars || strings.Contains(a.Owner, ":") {
		return fmt.Errorf("accrual: the agent id %.80q does not begin with the thumbprint of an owner", a.String())
	}
	if a.Subject == "" || len(a.Subject) > maxSubject {
		return fmt.Errorf("accrual: the agent id %.80q names no subject of at most %d bytes", a.String(), maxSubject)
	}
	return nil
}
