package interaction

import (
	"cmp"
	"errors"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// StatementHeader carries a statement to the node. Only the sidecar sets it: it removes an agent's own.
const StatementHeader = "Agent-Statement"

// StatementKind's key signs nothing else, to separate an agent's public words from its sidecar's observations.
var StatementKind = evidence.NewKind("agent-statement+jwt", evidence.PurposeStatement, Lifetime, checkStatement)

const (
	StatesSignal    = "signal"    // the agent's own statement, which others may dispute
	StatesContract  = "contract"  // a dispute of a signal (seed: challenge contract)
	StatesChallenge = "challenge" // a dispute of receipts (VIN v0.4: challenge)
)

// Statement attests that an agent published a document, not that the document is true. The sidecar signs it after the
// policy has allowed the post and before the document leaves.
type Statement struct {
	evidence.Registered
	evidence.KeyClaims

	Owner   string `json:"owner"`   // names the agent, with Agent: see [Receipt]
	Agent   string `json:"agent"`   // the post's subject
	Session string `json:"session"` // the session_id of the agent's receipts
	EventID string `json:"eventId"` // the event that opened the session

	Kind string `json:"kind"`
	// of the document's canonical JSON without its signature member
	StatementHash string `json:"statementHash"`
	// of the post's binding, also in the sidecar's record
	BindingHash string `json:"bindingHash"`

	// as in [Receipt]
	Probabilistic          bool `json:"probabilistic"`
	NonHumanIdentityProven bool `json:"nonHumanIdentityProven"`
}

func checkStatement(s *Statement) error {
	switch {
	case s.Expires-s.IssuedAt != int64(Lifetime/time.Second):
		return errors.New("exp is not ten minutes after iat")
	case !s.Probabilistic || s.NonHumanIdentityProven:
		return errors.New("it claims more than a likelihood, or that no human was involved")
	case len(s.Owner) != thumbprintChars:
		return errors.New("owner is not a thumbprint")
	}
	return cmp.Or(
		checkShort(
			short{"keyCustody", s.KeyCustody, maxShortName, false}, short{"agent", s.Agent, maxAgentName, false},
			short{"session", s.Session, maxName, false},
			short{"eventId", s.EventID, maxAgentName, false},
		),
		oneOf("kind", s.Kind, StatesSignal, StatesContract, StatesChallenge),
		checkHashes(hash{"statementHash", s.StatementHash}, hash{"bindingHash", s.BindingHash}),
	)
}

// States refuses every document but the statement's. documentHash is as [Statement.StatementHash].
func (s Statement) States(kind, documentHash string) error {
	if s.Kind != kind || s.StatementHash != documentHash {
		return refusal.New("statement_mismatch", "the statement is not for this %.32s", kind)
	}
	return nil
}
