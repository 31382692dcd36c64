package interaction

import (
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// Lifetime is the exact lifetime of every receipt, as readers of VIN's ReceiptV0 expect.
const Lifetime = 10 * time.Minute

// Kind's receipts are valid for [Lifetime].
var Kind = evidence.NewKind("interaction-receipt+jwt", evidence.PurposeInteraction, Lifetime, check)

// The subject of a receipt (VIN: action_type). The last one would promise that no one could read the call.
const (
	ActionComposePost       = "compose_post"          // a post
	ActionGeneric           = "generic"               // a model call, or the end of the session
	ActionChallengeResponse = "challenge_response"    // a model call while the agent has a challenge to answer
	ActionConfidentialCall  = "confidential_llm_call" // read, never made
)

const (
	// the answer reached its own end, as its API marks it, or the body's if it marks none; of a post: the upstream
	// answered
	OutcomeCompleted     = "completed"
	OutcomeFailed        = "failed"        // the provider reported an error; of a post: nothing was sent
	OutcomeUnfinished    = "unfinished"    // the provider continues after its answer
	OutcomeCut           = "cut"           // the answer broke off
	OutcomeLeft          = "left"          // the agent left first
	OutcomeIndeterminate = "indeterminate" // it may have been sent; the outcome is unknown
	OutcomeNotMeasured   = "not_measured"  // answered, but not read to the end: see Model.Unread
)

// Why a session ended.
const (
	ClosedEnded    = "ended"    // its run ended, or the next session replaced it
	ClosedShutdown = "shutdown" // the mediator ended
	ClosedLost     = "lost"     // the mediator stopped without closing it, and closed it at the next start
)

// The longest receipt fits a token.
const (
	MaxToolCalls    = 16
	MaxReturned     = 32
	MaxRelayed      = 4
	MaxHosted       = 8  // hosted tools and unknown members together
	MaxNamed        = 16 // artifacts in the receipt of a post
	MaxRuntimeID    = maxName
	MaxAgent        = maxAgentName
	MaxToolName     = maxShortName // calls of tools by a model
	maxShortName    = 64           // bytes of the name of an API, a model's tool, an artifact, or a reason
	maxName         = 128          // bytes of the name of a model, a server's tool, a host, a rule, a runtime, or an id
	maxAgentName    = 256          // bytes of the name of an agent or an event
	thumbprintChars = 43           // base64url of a SHA-256
)

// Receipt is the sidecar's receipt for one interaction: a model call, a post, or the end of the session (VIN v0.4:
// ReceiptV1). Names with underscores are VIN's.
//
// Observed names the claims that the mediator saw and the agent cannot falsify. A [Figure] states its own source.
// Everything else is the word of the agent or the provider.
//
// A receipt reveals nothing said to or by a model. A post's contentHash can be checked against guesses. A tag is 128
// bits of an HMAC-SHA256 under a key of the session that never leaves memory: equal tags in a chain mean equal texts.
type Receipt struct {
	evidence.Registered
	evidence.KeyClaims

	// id of the call's record (post_...); at the end of a session, the session's id
	RequestID  string `json:"request_id"`
	ActionType string `json:"action_type"`
	// hash of the deployment manifest in use
	PolicyID string `json:"policy_id"`
	// The three commitments (see [Commit]) are made before the call is sent. Only someone with the salt can check a
	// value.
	InputsCommitment      string `json:"inputs_commitment"`      // the hex SHA-256 of the body as sent
	ConstraintsCommitment string `json:"constraints_commitment"` // the rule, and what the provider was allowed to do
	// API, host and requested model; null without a model call
	LLMCommitment string `json:"llm_commitment"`
	// Of a model call: hex HMAC-SHA256 under the session's key, of the answer's content (the concatenated HMACs of its
	// blocks) and of its bytes; for an unread answer, of nothing. Of a post: the binding's contentHash, and the HMAC of
	// the body as sent.
	OutputCleanHash     string `json:"output_clean_hash"`
	OutputTransportHash string `json:"output_transport_hash"`

	Timing    Timing        `json:"timing"`
	Chain     ChainLink     `json:"chain"`
	Challenge *ChallengeRef `json:"challenge,omitempty"`

	// Owner (see the function) and Agent, the session's subject, name the agent. Both are declared in the sidecar's
	// configuration. A verifier compares Owner with its pinned root.
	Owner string `json:"owner"`
	Agent string `json:"agent"`
	// as in attestations: declared
	RuntimeID string `json:"runtime_id"`
	EventID   string `json:"event_id"` // of the event that opened the session: observed
	// see [evidence.Enforcements]; empty if it is not known
	Enforcement string `json:"enforcement,omitempty"`
	Outcome     string `json:"outcome"`
	// The subject: exactly one is set.
	Model   *ModelCall `json:"model_call,omitempty"`
	Post    *PostMade  `json:"post,omitempty"`
	Closing *Closing   `json:"closing,omitempty"`
	// the agent's MCP tool calls through the mediator since the previous receipt, the last MaxRelayed of RelayedCount:
	// observed
	Relayed      []RelayedCall `json:"relayed,omitempty"`
	RelayedCount int64         `json:"relayed_count"`
	// up to the signing of this receipt, without calls that bypass the mediator: observed
	Session SessionTotals `json:"session"`

	// as [ObservedOf] returns them
	Observed []string `json:"observed"`
	// Always true and always false: receipts make an agent's run likely, but do not prove it.
	Probabilistic          bool `json:"probabilistic"`
	NonHumanIdentityProven bool `json:"nonHumanIdentityProven"`
}

// Timing has four moments in Unix milliseconds of the mediator's clock: observed. Unseen moments are absent.
type Timing struct {
	RequestReceived int64 `json:"request_received_ms"`    // the request's head arrived
	LLMStart        int64 `json:"llm_start_ms,omitempty"` // the head of the model request was written
	LLMEnd          int64 `json:"llm_end_ms,omitempty"`   // the model's answer ended or broke off
	// the agent's connection took the whole answer; absent if that failed
	ResponseSent int64 `json:"response_sent_ms,omitempty"`
}

// ChainLink is the receipt's place in its chain: observed. Its number is assigned at signing, so there are no gaps, and
// iat never falls.
type ChainLink struct {
	// HashToken of the previous receipt; absent in the first
	PreviousReceiptHash string `json:"previous_receipt_hash,omitempty"`
	SessionID           string `json:"session_id"`
	SequenceNumber      int64  `json:"sequence_number"` // from 1
}

// ChallengeRef names the challenge that the agent must answer: observed as given. The nonce is the issuer's, the
// commitment the agent's. CommitmentRevealed means that the agent has shown a value that fits the hash.
type ChallengeRef struct {
	ChallengeNonce     string `json:"challenge_nonce"`
	CommitmentHash     string `json:"commitment_hash,omitempty"`
	CommitmentRevealed bool   `json:"commitment_revealed,omitempty"`
}

// PostMade is what a post's receipt adds, all observed.
type PostMade struct {
	BindingHash string          `json:"binding_hash"`
	Status      int64           `json:"status,omitempty"` // the upstream's HTTP status
	Artifacts   []NamedArtifact `json:"artifacts"`        // in the order of the post's record
}

// NamedArtifact names an artifact of a record by [evidence.HashToken].
type NamedArtifact struct {
	Name string `json:"name"`
	Hash string `json:"hash"`
}

// Closing ends a chain. A chain without it may lack receipts at its end.
type Closing struct {
	Reason string `json:"reason"`
}

// RelayedCall is an MCP tool call that passed the mediator: observed.
type RelayedCall struct {
	Host      string `json:"host"`                // and port, the last 128 bytes
	Tool      string `json:"tool"`                // as in the rule
	Arguments string `json:"arguments,omitempty"` // tag of the canonical JSON; absent if too large
	// tag of the id of the model's call with this tool and these arguments, if there is one
	CallID string `json:"call_id,omitempty"`
}

// SessionTotals count since the session was opened.
type SessionTotals struct {
	OpenedMS int64 `json:"opened_ms"` // Unix milliseconds
	Calls    int64 `json:"calls"`     // calls sent and ended
	// of those, the read ones: calls to models and MCP servers, and posts
	CallsObserved    int64 `json:"calls_observed"`
	BytesOut         int64 `json:"bytes_out"`          // of all their bodies
	BytesOutObserved int64 `json:"bytes_out_observed"` // of the read ones
}

var (
	observedOfAll = strings.Fields(`chain constraints_commitment event_id inputs_commitment llm_commitment outcome
		output_clean_hash output_transport_hash policy_id relayed relayed_count request_id session timing`)
	observedOfModel = strings.Fields(`model_call.api model_call.hosted_tools model_call.host model_call.returned_calls
		model_call.rule model_call.status model_call.streamed model_call.tool_calls`)
)

// ObservedOf returns the claim "observed" for a receipt like c.
func ObservedOf(c Receipt) []string {
	names := slices.Clone(observedOfAll)
	switch {
	case c.Model != nil:
		names = append(names, observedOfModel...)
		if len(c.Model.UnknownMembers) > 0 {
			names = append(names, "model_call.unknown_members")
		}
	case c.Post != nil:
		names = append(names, "post")
	case c.Closing != nil:
		names = append(names, "closing")
	}
	if c.Challenge != nil {
		names = append(names, "challenge")
	}
	if evidence.EnforcementObserved(c.Enforcement) {
		names = append(names, "enforcement")
	}
	slices.Sort(names)
	return names
}
