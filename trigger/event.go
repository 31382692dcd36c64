package trigger

import (
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// Event is one durable trigger.
type Event struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Source string `json:"source"` // of the source, or the reporter
	Method string `json:"method"` // of verification
	// EvidenceID names the evidence at its origin: a delivery id, a fire time, a message id. It is good for one event.
	EvidenceID string `json:"evidenceId"`
	// EvidenceHash is of the canonical JSON of the verified data, such as {deliveryId, payload, signature}.
	EvidenceHash string `json:"evidenceHash"`
	// PayloadHash is of the payload's RFC 8785 form. A payload without one, such as text, or JSON with a duplicate
	// member, is hashed as it came.
	PayloadHash    string `json:"payloadHash"`
	HumanInitiated bool   `json:"humanInitiated"`
	Type           string `json:"type,omitempty"` // the source's own name for the event, such as release.published
	// Payload is JSON; a payload that is not is a JSON string here. Lists omit it.
	Payload    json.RawMessage `json:"payload,omitempty"`
	ReceivedAt time.Time       `json:"receivedAt"`
	ExpiresAt  time.Time       `json:"expiresAt"`
	State      State           `json:"state"`
	ClaimedBy  string          `json:"claimedBy,omitempty"` // the runtime
}

// State is the state of an event.
type State string

const (
	Received State = "received" // waits for a runtime
	Claimed  State = "claimed"  // has opened a session
	Done     State = "done"     // its session has ended
	Expired  State = "expired"  // grew too old
)

// origins says which kind of event each method verifies. The sources of this package use no other methods.
var origins = map[string]string{
	evidence.MethodWebhookSignature:     evidence.TriggerSourceEvent,
	evidence.MethodQueueClaim:           evidence.TriggerSourceEvent,
	evidence.MethodSchedulerLock:        evidence.TriggerScheduled,
	evidence.MethodPolicyEngineDecision: evidence.TriggerAutonomousPolicy,
}

// Verified refuses an event that cannot be the reason for a post: one that a human asked for (human_involved), or one
// whose origin was not verified (trigger_unverified).
func (e Event) Verified() error {
	if e.HumanInitiated || e.Kind == evidence.TriggerHumanRequest {
		return refusal.New("human_involved", "a human asked for the event %s, so it cannot be the reason for a post", e.ID)
	}
	if kind, ok := origins[e.Method]; !ok || kind != e.Kind {
		return refusal.New("trigger_unverified", "the origin of the event %s was not verified: it is %s by %s", e.ID, e.Kind,
			e.Method)
	}
	return nil
}

const (
	maxID   = 200
	maxType = 128
)

// arrival is what a source has verified and brings in.
type arrival struct {
	kind, source, method string
	evidenceID, typ      string
	payload              []byte
	verified             map[string]string
	// keys are good for one event of the source, like the evidence id.
	keys []string
}

// event makes an event. It refuses what could not be signed or shown later, when a post would have been paid for.
func (a arrival) event(now time.Time, maxAge time.Duration) (Event, error) {
	switch {
	case len(a.payload) > MaxPayload:
		return Event{},
			refusal.New("content_too_large", "the event's payload has %d bytes; the limit is %d", len(a.payload), MaxPayload)
	case !utf8.Valid(a.payload):
		return Event{}, refusal.New("event_malformed", "the event's payload is neither JSON nor text in UTF-8")
	case !isID(a.evidenceID) || !isID(a.source):
		return Event{},
			refusal.New("event_malformed",
				"the event's id at its origin, or its source, is not 1 to %d printable ASCII characters without spaces", maxID)
	case len(a.typ) > maxType || !utf8.ValidString(a.typ):
		return Event{}, refusal.New("event_malformed", "the event's type is longer than %d bytes or not UTF-8", maxType)
	}
	hash, err := evidence.HashValue(a.verified)
	if err != nil {
		return Event{}, err
	}
	return Event{
		ID: "evt_" + evidence.NewOrderedID(now), Kind: a.kind, Source: a.source, Method: a.method, EvidenceID: a.evidenceID,
		EvidenceHash: hash,
		PayloadHash:  payloadHash(a.payload), HumanInitiated: a.kind == evidence.TriggerHumanRequest, Type: a.typ,
		Payload:    asJSON(a.payload),
		ReceivedAt: now, ExpiresAt: now.Add(maxAge), State: Received,
	}, nil
}

func (a arrival) singleUse() []string {
	return slices.Concat([]string{"id:" + a.evidenceID}, a.keys)
}

func payloadHash(payload []byte) string {
	if h, err := evidence.HashJSON(payload); err == nil {
		return h
	}
	return evidence.HashBytes(payload)
}

func asJSON(payload []byte) json.RawMessage {
	if len(payload) == 0 || json.Valid(payload) {
		return payload
	}
	s, err := json.Marshal(string(payload))
	if err != nil {
		return nil
	}
	return s
}

// isID reports whether s can only be read as a name in claims, logs and file names.
func isID(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
