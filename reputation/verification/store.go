package verification

import (
	"context"
	"errors"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// Errors of a [Store].
var (
	// ErrNotFound means that there is no such session or plugin.
	ErrNotFound = errors.New("verification: not found")
	// ErrConflict means that the session was updated since it was read. Nothing was stored.
	ErrConflict = errors.New("verification: the session was updated meanwhile")
)

// Store keeps sessions, failures and plugins for all replicas of a node. A call that returned nil is durable. It is
// safe for concurrent use.
type Store interface {
	// Now returns the time by the store's clock, the only clock for sessions, so that replicas agree.
	Now(ctx context.Context) (time.Time, error)
	// Open keeps a new session, or returns [ErrTooMany] if the subject has perSubject open sessions or there are total.
	Open(ctx context.Context, s Session, perSubject, total int) error
	// Session returns a session, or ErrNotFound.
	Session(ctx context.Context, id string) (Session, error)
	// Sessions returns the latest sessions, newest first, at most limit.
	Sessions(ctx context.Context, limit int) ([]Session, error)
	// Newest returns the caller's latest session, or ErrNotFound.
	Newest(ctx context.Context, by Caller) (Session, error)
	// Update replaces the session of version s.Version, increments the version and applies effects, in one transaction.
	// For another version it returns ErrConflict.
	Update(ctx context.Context, s Session, effects Effects) error
	// Failures returns the failures of these names.
	Failures(ctx context.Context, names ...string) ([]Failures, error)
	// Search returns plugins with the query in name, description or DID, ordered by name, at most limit.
	Search(ctx context.Context, query string, limit int) ([]Plugin, error)
	// Plugin returns a plugin, or ErrNotFound.
	Plugin(ctx context.Context, did string) (Plugin, error)
	// Registered returns since when an agent is registered.
	Registered(ctx context.Context, agent string) (since time.Time, ok bool, err error)
	// Passed returns the last passed verification of a caller named by a sidecar, or ErrNotFound.
	Passed(ctx context.Context, subject string) (Passed, error)
	// Prune removes sessions opened, failures made, and verifications passed before the given times.
	Prune(ctx context.Context, sessions, failures, passed time.Time) error
}

// Effects are what the end of a session changes besides the session.
type Effects struct {
	// Plugin is registered, or refused with [ErrTaken] if another key has its DID.
	Plugin *Plugin
	// Agents are registered from At on, unless they already are.
	Agents []string
	// Passed replaces its subject's earlier one.
	Passed *Passed
	// Fail names get one more failure at At; Reset names lose theirs.
	Fail, Reset []string
	At          time.Time
}

// Passed is a passed verification of a caller named by a sidecar.
type Passed struct {
	Subject string
	At      time.Time
	Result  string // signed
}

// ErrTooMany refuses another open session.
func ErrTooMany() error {
	return refusal.New("too_many_open", "too many verifications are open; finish one, or wait until one expires")
}

// ErrTaken refuses another key's DID.
func ErrTaken(did string) error {
	return refusal.New("id_taken", "%s is registered for another key", did)
}

// Plugin is a registered plugin.
type Plugin struct {
	DID        string    `json:"did"`
	Key        string    `json:"key"` // in hex
	DIDKey     string    `json:"didKey"`
	Subject    string    `json:"subject"`
	Metadata   Metadata  `json:"metadata"`
	Manifest   string    `json:"manifest,omitempty"` // canonical JSON
	Result     string    `json:"result"`             // the signed result
	Registered time.Time `json:"registered"`
}

// Metadata is the agent's own description of its plugin. It is short and printable, but still the agent's text.
type Metadata struct {
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Version     string   `json:"version,omitempty"`
	Tags        []string `json:"tags,omitempty"`
}
