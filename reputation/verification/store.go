package verification

import (
	"context"
	"errors"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// What a [Store] answers.
var (
	// ErrNotFound means that there is no such session or plugin.
	ErrNotFound = errors.New("verification: not found")
	// ErrConflict means that somebody else has updated the session since it was read. Nothing was stored.
	ErrConflict = errors.New("verification: the session was updated meanwhile")
)

// Store keeps sessions, failures and plugins. All replicas of a node share one store. A call that returned nil is durable. A store is safe
// for concurrent use.
type Store interface {
	// Now returns the time by the store's clock. Only this clock times what happens in sessions, so replicas whose clocks differ agree.
	Now(ctx context.Context) (time.Time, error)
	// Open keeps a new session. It refuses one more where the subject has perSubject sessions that are open, or all subjects together
	// have total (see [ErrTooMany]).
	Open(ctx context.Context, s Session, perSubject, total int) error
	// Session returns a session, or ErrNotFound.
	Session(ctx context.Context, id string) (Session, error)
	// Sessions returns the sessions that were opened last, the latest first, at most limit.
	Sessions(ctx context.Context, limit int) ([]Session, error)
	// Newest returns the session of the caller that was opened last, or ErrNotFound.
	Newest(ctx context.Context, by Caller) (Session, error)
	// Update replaces the session if its version is still s.Version, and adds one to the version. In the same transaction it does what
	// effects says. Otherwise it returns ErrConflict.
	Update(ctx context.Context, s Session, effects Effects) error
	// Failures returns the failures of those of the names that have any.
	Failures(ctx context.Context, names ...string) ([]Failures, error)
	// Search returns plugins whose name, description or DID has the query, at most limit, by name.
	Search(ctx context.Context, query string, limit int) ([]Plugin, error)
	// Plugin returns a plugin, or ErrNotFound.
	Plugin(ctx context.Context, did string) (Plugin, error)
	// Registered returns since when an agent is registered, and whether it ever was.
	Registered(ctx context.Context, agent string) (since time.Time, ok bool, err error)
	// Passed returns the last verification that a caller has passed whom a sidecar named, or ErrNotFound.
	Passed(ctx context.Context, subject string) (Passed, error)
	// Prune removes sessions that were opened before the first time, failures from before the second, and verifications that were passed before
	// the third.
	Prune(ctx context.Context, sessions, failures, passed time.Time) error
}

// Effects is what the end of a session does besides.
type Effects struct {
	// Plugin is registered. A DID that another key has registered is refused with [ErrTaken].
	Plugin *Plugin
	// Agents are the ids of the agent that has registered it, from At on. Those that are registered already stay so since then.
	Agents []string
	// Passed takes the place of what its subject has passed before.
	Passed *Passed
	// Fail names count one failure more, at the time At; those of Reset have none any more.
	Fail, Reset []string
	At          time.Time
}

// Passed is a verification that was passed by a caller whom a sidecar named.
type Passed struct {
	Subject string
	At      time.Time
	Result  string // signed
}

// ErrTooMany refuses another open session.
func ErrTooMany() error {
	return refusal.New("too_many_open", "too many verifications are open; finish one, or wait until one expires")
}

// ErrTaken refuses a DID of another key.
func ErrTaken(did string) error {
	return refusal.New("id_taken", "%s is registered for another key", did)
}

// Plugin is what is registered under the DID of a key.
type Plugin struct {
	DID        string    `json:"did"`
	Key        string    `json:"key"` // in hex
	DIDKey     string    `json:"didKey"`
	Subject    string    `json:"subject"`
	Metadata   Metadata  `json:"metadata"`
	Manifest   string    `json:"manifest,omitempty"` // canonical JSON
	APIKeyHash string    `json:"apiKeyHash"`         // SHA-256; the key itself is shown once
	Result     string    `json:"result"`             // the signed result
	Registered time.Time `json:"registered"`
}

// Metadata is what an agent says of its plugin. Others read it, so it is short and printable; it is still the agent's text.
type Metadata struct {
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Version     string   `json:"version,omitempty"`
	Tags        []string `json:"tags,omitempty"`
}
