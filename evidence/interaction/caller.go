package interaction

import (
	"cmp"
	"errors"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// CallerHeader is the header that carries a caller token. The sidecar sets it, and drops one that an agent has sent.
const CallerHeader = "ActionProof-Caller"

// CallerLifetime is the longest exp - iat of a caller token.
const CallerLifetime = time.Minute

// CallerKind is the kind of the caller tokens. They are signed by the key of the receipts: it is the observer who says which agent calls.
var CallerKind = evidence.NewKind("caller+jwt", evidence.PurposeInteraction, CallerLifetime, checkCaller)

// Caller says which agent makes one request to the node. The sidecar signs it for a request that it relays, with the node as audience.
// Its jti is good once: the node keeps it until the token has expired.
type Caller struct {
	evidence.Registered
	evidence.KeyClaims

	Agent   string `json:"sub"`      // as in the receipts: with Owner it names the agent
	Owner   string `json:"owner"`    // see [Receipt]
	Session string `json:"session"`  // in which the agent calls: the session_id of its receipts
	EventID string `json:"event_id"` // that opened the session

	// The request that the token is for: a copy at another request is refused ([Caller.Calls]).
	Method   string `json:"method"`
	Path     string `json:"path"`      // of the URL as it is sent; no such request has a query
	BodyHash string `json:"body_hash"` // hex SHA-256 of the body as it is sent

	// ModelCalls is how many calls of the session to models, as rules of the sidecar observe them, had ended with a whole answer.
	ModelCalls int64 `json:"model_calls"`
}

func checkCaller(c *Caller) error {
	if len(c.Owner) != thumbprintChars {
		return errors.New("owner is no thumbprint")
	}
	if c.ModelCalls < 0 {
		return errors.New("model_calls is no count")
	}
	return cmp.Or(
		checkShort(
			short{"keyCustody", c.KeyCustody, maxShortName, false}, short{"sub", c.Agent, maxAgentName, false}, short{"session", c.Session, maxName, false},
			short{"event_id", c.EventID, maxAgentName, false}, short{"method", c.Method, maxShortName, false}, short{"path", c.Path, maxName, false},
		),
		checkHashes(hash{"body_hash", c.BodyHash}),
	)
}

// Calls refuses a request other than the one that the token is for. path is as it came, and body the whole of it.
func (c Caller) Calls(method, path string, body []byte) error {
	if c.Method != method || c.Path != path || c.BodyHash != evidence.HashBytes(body) {
		return refusal.New("caller_invalid", "the caller token is for another request than %.32s %.100q with this body", method, path)
	}
	return nil
}
