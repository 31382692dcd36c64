// Package trigger keeps the events that start agents, each with an origin that the service verified itself, and signs for one
// event and one binding the two artifacts that say so: the trigger origin proof and the trigger receipt (seed:
// createTriggerOriginProof, createTriggerReceipt).
package trigger

import (
	"encoding/json"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// Event is one durable trigger.
type Event struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`   // evidence.TriggerSourceEvent and its like
	Source string `json:"source"` // the configured source's name
	Method string `json:"method"` // how the origin was verified: evidence.MethodWebhookSignature and its like
	// EvidenceID names the evidence at its origin: a delivery id, a fire time, a message id. It is good for one event.
	EvidenceID string `json:"evidenceId"`
	// EvidenceHash is the hash of what was verified; PayloadHash that of the payload's bytes.
	EvidenceHash string          `json:"evidenceHash"`
	PayloadHash  string          `json:"payloadHash"`
	Type         string          `json:"type,omitempty"` // the source's own name for what happened, such as release.published
	Payload      json.RawMessage `json:"payload,omitempty"`
	ReceivedAt   time.Time       `json:"receivedAt"`
	ExpiresAt    time.Time       `json:"expiresAt"`
	State        State           `json:"state"`
	ClaimedBy    string          `json:"claimedBy,omitempty"` // the runtime
}

// State is where an event is on its way.
type State string

// The states of an event.
const (
	Received State = "received" // waits for a runtime
	Claimed  State = "claimed"  // opened a session
)

// Verified reports whether the event can be the reason of a post: not asked for by a human, and verified by something other than
// somebody's word.
func (e Event) Verified() error {
	switch e.Kind {
	case evidence.TriggerSourceEvent, evidence.TriggerScheduled, evidence.TriggerAutonomousPolicy:
	case evidence.TriggerHumanRequest:
		return evidence.Refuse("trigger_human", "the event %s was asked for by a human, so it stands behind no post", e.ID)
	default:
		return evidence.Refuse("trigger_unverified", "nobody knows what the event %s is", e.ID)
	}
	switch e.Method {
	case evidence.MethodWebhookSignature, evidence.MethodSchedulerLock, evidence.MethodPolicyEngineDecision, evidence.MethodQueueClaim, evidence.MethodExternalAttestation:
		return nil
	default:
		return evidence.Refuse("trigger_unverified", "the origin of the event %s was not verified: its method is %s", e.ID, e.Method)
	}
}

// newEvent makes an event of a payload. evidenceOf is what was verified, as a value whose canonical JSON is hashed.
func newEvent(kind, source, method, evidenceID, eventType string, payload []byte, evidenceOf any) (Event, error) {
	hash, err := evidence.HashValue(evidenceOf)
	if err != nil {
		return Event{}, err
	}
	e := Event{
		ID: "evt_" + evidence.NewID(), Kind: kind, Source: source, Method: method, EvidenceID: evidenceID, EvidenceHash: hash,
		PayloadHash: evidence.HashBytes(payload), Type: eventType, State: Received,
	}
	if json.Valid(payload) {
		e.Payload = payload
	} else if len(payload) > 0 {
		if e.Payload, err = json.Marshal(string(payload)); err != nil { // what is no JSON reaches the agent as a JSON string
			return Event{}, err
		}
	}
	return e, nil
}
