package trigger

import (
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
)

// Event is what starts a session: a schedule's time, a webhook's delivery, a message, or a report.
type Event struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Source string `json:"source"` // the source's name, or the reporter
	Method string `json:"method"` // of verification
	// EvidenceID names the evidence at its origin: a delivery id, a fire time, a message id. It makes one event only.
	EvidenceID string `json:"evidenceId"`
	// EvidenceHash hashes the canonical JSON of the verified data, such as {deliveryId, payload, signature}.
	EvidenceHash string `json:"evidenceHash"`
	// PayloadHash hashes the payload's RFC 8785 form, or its bytes if it has none, such as text, or JSON with a
	// duplicate member.
	PayloadHash    string `json:"payloadHash"`
	HumanInitiated bool   `json:"humanInitiated"`
	Type           string `json:"type,omitempty"` // the source's name for it, such as release.published
	// Payload is JSON; any other payload becomes a JSON string. Lists omit it.
	Payload    json.RawMessage `json:"payload,omitempty"`
	ReceivedAt time.Time       `json:"receivedAt"`
	ExpiresAt  time.Time       `json:"expiresAt"`
	State      State           `json:"state"`
	ClaimedBy  string          `json:"claimedBy,omitempty"`
}

// State is how far an event has come.
type State string

const (
	Received State = "received" // waits for a runtime
	Claimed  State = "claimed"  // has opened a session
	Done     State = "done"     // session ended
	Expired  State = "expired"  // too old
)

// origins maps each method to the kind of event that it verifies. This package's sources use no other methods.
var origins = map[string]string{
	evidence.MethodWebhookSignature:     evidence.TriggerSourceEvent,
	evidence.MethodQueueClaim:           evidence.TriggerSourceEvent,
	evidence.MethodSchedulerLock:        evidence.TriggerScheduled,
	evidence.MethodPolicyEngineDecision: evidence.TriggerAutonomousPolicy,
}

// Verified refuses an event that cannot cause a post: a human asked for it (human_involved), or its origin was not
// verified (trigger_unverified).
func (e Event) Verified() error {
	if e.HumanInitiated || e.Kind == evidence.TriggerHumanRequest {
		return refusal.New("human_involved", "a human asked for the event %s, so it cannot be the reason for a post",
			e.ID)
	}
	if kind, ok := origins[e.Method]; !ok || kind != e.Kind {
		return refusal.New("trigger_unverified",
			"the origin of the event %s was not verified: its kind is %s, its method %s", e.ID, e.Kind,
			e.Method)
	}
	return nil
}

const (
	maxID   = 200
	maxType = 128
)

type arrival struct {
	kind, source, method string
	evidenceID, typ      string
	payload              []byte
	verified             map[string]string
	// keys are for one event only, like the evidence id.
	keys []string
}

// event makes an event. It refuses now what could not be signed or shown later, after the payment for a post.
func (a arrival) event(now time.Time, maxAge time.Duration) (e Event, err error) {
	switch {
	case len(a.payload) > MaxPayload:
		return e, refusal.New("content_too_large", "the event's payload has %d bytes; the limit is %d", len(a.payload),
			MaxPayload)
	case !utf8.Valid(a.payload):
		return e, refusal.New("event_malformed", "the event's payload is neither JSON nor text in UTF-8")
	case !isID(a.evidenceID) || !isID(a.source):
		return e, refusal.New("event_malformed",
			"the event's source, and its id there, must each be 1 to %d printable ASCII characters without spaces",
			maxID)
	case len(a.typ) > maxType || !utf8.ValidString(a.typ):
		return e, refusal.New("event_malformed", "the event's type is longer than %d bytes or not UTF-8", maxType)
	}
	e = Event{
		ID: "evt_" + evidence.NewOrderedID(now), Kind: a.kind, Source: a.source, Method: a.method,
		EvidenceID: a.evidenceID, PayloadHash: payloadHash(a.payload),
		HumanInitiated: a.kind == evidence.TriggerHumanRequest, Type: a.typ, Payload: asJSON(a.payload),
		ReceivedAt: now, ExpiresAt: now.Add(maxAge), State: Received,
	}
	e.EvidenceHash, err = evidence.HashValue(a.verified)
	return e, err
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

// isID reports whether claims, logs and file names can only read s as a name.
func isID(s string) bool { return wire.IsText(s, maxID) }
