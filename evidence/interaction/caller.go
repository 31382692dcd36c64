package interaction

import (
	"cmp"
	"errors"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// CallerHeader carries a caller token. Only the sidecar sets it: it removes an agent's own.
const CallerHeader = "ActionProof-Caller"

// CallerLifetime is the longest between a [Caller]'s iat and exp.
const CallerLifetime = time.Minute

// CallerKind's tokens are signed by the receipts' key: both state what the sidecar observed of the agent.
var CallerKind = evidence.NewKind("caller+jwt", evidence.PurposeInteraction, CallerLifetime, checkCaller)

// Caller tells the node which agent makes a request. Its audience is the node, and its jti is good once.
type Caller struct {
	evidence.Registered
	evidence.KeyClaims

	Agent   string `json:"sub"`      // names the agent, with Owner
	Owner   string `json:"owner"`    // see [Receipt]
	Session string `json:"session"`  // the session_id of the agent's receipts
	EventID string `json:"event_id"` // the event that opened the session

	Method   string `json:"method"`
	Path     string `json:"path"`      // of the URL as sent; there is no query
	BodyHash string `json:"body_hash"` // hex SHA-256 of the body as sent

	// the session's observed model calls that ended with a whole answer
	ModelCalls int64 `json:"model_calls"`
}

func checkCaller(c *Caller) error {
	if len(c.Owner) != thumbprintChars {
		return errors.New("owner is not a thumbprint")
	}
	if c.ModelCalls < 0 {
		return errors.New("model_calls is not a count")
	}
	return cmp.Or(
		checkShort(
			short{"keyCustody", c.KeyCustody, maxShortName, false}, short{"sub", c.Agent, maxAgentName, false},
			short{"session", c.Session, maxName, false},
			short{"event_id", c.EventID, maxAgentName, false}, short{"method", c.Method, maxShortName, false},
			short{"path", c.Path, maxName, false},
		),
		checkHashes(hash{"body_hash", c.BodyHash}),
	)
}

// Calls refuses every request but the token's. path is as received, body complete.
func (c Caller) Calls(method, path string, body []byte) error {
	if c.Method != method || c.Path != path || c.BodyHash != evidence.HashBytes(body) {
		return refusal.New("caller_invalid", "the caller token is not for the request %.32s %.100q with this body",
			method, path)
	}
	return nil
}
