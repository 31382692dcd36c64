package interaction

import (
	"cmp"
	"errors"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// StatementHeader is the header that carries a statement to the node. The sidecar sets it, and drops one that an agent has sent.
const StatementHeader = "Agent-Statement"

// StatementKind is the kind of the statements. Their key signs nothing else: what an agent says in public is not mixed with what its sidecar has seen.
var StatementKind = evidence.NewKind("agent-statement+jwt", evidence.PurposeStatement, Lifetime, checkStatement)

// The documents that an agent can publish.
const (
	StatesSignal    = "signal"    // its own statement, which others may dispute
	StatesContract  = "contract"  // a dispute of a signal (seed: challenge contract)
	StatesChallenge = "challenge" // a dispute of receipts (VIN v0.4: challenge)
)

// Statement says that an agent published one document: its sidecar signs it for the agent, which has no key. It is signed after the policy has
// allowed the post that publishes the document, and before the document leaves.
//
// A statement says who published, and says nothing of whether the document is true.
type Statement struct {
	evidence.Registered
	evidence.KeyClaims

	Owner   string `json:"owner"`   // see [Receipt]: with Agent it names the agent
	Agent   string `json:"agent"`   // the subject of the post
	Session string `json:"session"` // in which the agent published: the session_id of its receipts
	EventID string `json:"eventId"` // that opened the session

	// Kind is what the document is: see the constants.
	Kind string `json:"kind"`
	// StatementHash is the hex SHA-256 of the document's canonical JSON (RFC 8785), without its member signature.
	StatementHash string `json:"statementHash"`
	// BindingHash is that of the post: the post's record, which the sidecar's operator has, names it too.
	BindingHash string `json:"bindingHash"`

	// Probabilistic is always true, and NonHumanIdentityProven always false, as in [Receipt].
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
		return errors.New("owner is no thumbprint")
	}
	return cmp.Or(
		checkShort(
			short{"keyCustody", s.KeyCustody, maxShortName, false}, short{"agent", s.Agent, maxAgentName, false}, short{"session", s.Session, maxName, false},
			short{"eventId", s.EventID, maxAgentName, false},
		),
		oneOf("kind", s.Kind, StatesSignal, StatesContract, StatesChallenge),
		checkHashes(hash{"statementHash", s.StatementHash}, hash{"bindingHash", s.BindingHash}),
	)
}

// OpenStatement opens a statement of any age as of the second in which it was signed, by the certificates of that time. What was revoked since
// is refused. now is the time of today: no statement is of the future.
func OpenStatement(trust *evidence.PastTrust, want evidence.Expected, token string, now time.Time) (evidence.Opened[Statement], error) {
	claims, err := evidence.UnverifiedClaims(StatementKind, token)
	if err != nil {
		return evidence.Opened[Statement]{}, err
	}
	verifier, err := trust.At(time.Unix(claims.IssuedAt, 0), now)
	if err != nil {
		return evidence.Opened[Statement]{}, err
	}
	return evidence.Open(verifier, StatementKind, token, want)
}

// States refuses a document other than the one that the statement is for. documentHash is that of its canonical JSON without its member signature.
func (s Statement) States(kind, documentHash string) error {
	if s.Kind != kind || s.StatementHash != documentHash {
		return refusal.New("statement_mismatch", "the statement is for another document than this %.32s", kind)
	}
	return nil
}
