package interaction

import (
	"cmp"
	"errors"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// CallerHeader is the header of a caller token. The sidecar sets it, and drops an agent's own.
const CallerHeader = "ActionProof-Caller"

// CallerLifetime is the longest lifetime of a caller token.
const CallerLifetime = time.Minute

// CallerKind is the kind of caller tokens. The key of the receipts signs them: the observer says which agent calls.
var CallerKind = evidence.NewKind("caller+jwt", evidence.PurposeInteraction, CallerLifetime, checkCaller)

// Caller names the agent behind one request to the node. The sidecar signs it for a request that it relays; the
// audience is the node. Its jti is good once.
type Caller struct {
	evidence.Registered
	evidence.KeyClaims

	Agent   string `json:"sub"`      // with Owner it names the agent
	Owner   string `json:"owner"`    // see [Receipt]
	Session string `json:"session"`  // the session_id of the agent's receipts
	EventID string `json:"event_id"` // opened the session

	// The request that the token is for. See [Caller.Calls].
	Method   string `json:"method"`
	Path     string `json:"path"`      // of the URL as sent; there is no query
	BodyHash string `json:"body_hash"` // hex SHA-256 of the body as sent

	// ModelCalls counts the session's observed model calls that had ended with a whole answer.
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
			short{"keyCustody", c.KeyCustody, maxShortName, false}, short{"sub", c.Agent, maxAgentName, false},
			short{"session", c.Session, maxName, false},
			short{"event_id", c.EventID, maxAgentName, false}, short{"method", c.Method, maxShortName, false},
			short{"path", c.Path, maxName, false},
		),
		checkHashes(hash{"body_hash", c.BodyHash}),
	)
}

// Calls refuses any other request than the token's. path is as received, body complete.
func (c Caller) Calls(method, path string, body []byte) error {
	if c.Method != method || c.Path != path || c.BodyHash != evidence.HashBytes(body) {
		return refusal.New("caller_invalid", "the caller token is for another request than %.32s %.100q with this body",
			method, path)
	}
	return nil
}
