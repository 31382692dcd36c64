package interaction

import (
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// Lifetime is exp - iat of every receipt, exactly: readers of VIN's ReceiptV0 expect these ten minutes.
const Lifetime = 10 * time.Minute

// Kind is the kind of the receipts: their typ, and the purpose that their key has to be certified for.
var Kind = evidence.NewKind("interaction-receipt+jwt", evidence.PurposeInteraction, Lifetime, check)

// What an interaction receipt is about (VIN: action_type). The mediator makes no receipt of the last kind, which promises that the
// call ran where nobody could read it.
const (
	ActionComposePost       = "compose_post"          // a post
	ActionGeneric           = "generic"               // a call to a model, or the end of the session
	ActionChallengeResponse = "challenge_response"    // a call to a model while the agent has a challenge to answer
	ActionConfidentialCall  = "confidential_llm_call" // read, never made
)

// How an interaction has ended.
const (
	OutcomeCompleted     = "completed"     // the answer came to its own end, as its API marks it; of a post: the upstream answered
	OutcomeFailed        = "failed"        // the provider says that it could not answer; of a post: nothing was sent
	OutcomeUnfinished    = "unfinished"    // the provider goes on after its answer
	OutcomeCut           = "cut"           // the answer broke off before its end
	OutcomeLeft          = "left"          // the agent went away before the answer's end
	OutcomeIndeterminate = "indeterminate" // it may have been sent, and nobody on this side knows what became of it
	OutcomeNotMeasured   = "not_measured"  // it was answered, and the mediator did not follow the answer: Model.Unread says why
)

// Why a session has ended.
const (
	ClosedEnded    = "ended"    // its run ended, or the next session took its place
	ClosedShutdown = "shutdown" // the mediator ended
	ClosedLost     = "lost"     // the mediator had ended without closing it, and closed it at its next start
)

// Bounds on a receipt: the longest stays within the bound of a token.
const (
	MaxToolCalls    = 16
	MaxReturned     = 32
	MaxRelayed      = 4
	MaxHosted       = 8
	MaxNamed        = 16 // artifacts that the receipt of a post names
	MaxRuntimeID    = maxName
	MaxAgent        = maxAgentName
	MaxToolName     = maxShortName // of a tool that a model calls
	maxShortName    = 64           // bytes of the name of an API, a tool of a model, an artifact, or a reason
	maxName         = 128          // bytes of the name of a model, a tool of a server, a host, a rule, a runtime, or an id
	maxAgentName    = 256          // bytes of the name of an agent or an event
	thumbprintChars = 43           // base64url of a SHA-256
)

// Receipt is the sidecar's receipt for one interaction of a session: a call to a model, a post, or the end of the session
// (VIN v0.4: ReceiptV1). Names that VIN gives are VIN's, and so is their spelling; keyCustody, keyExportable and observed are as in the
// other artifacts.
//
// A receipt says what passed the mediator. Each claim that Observed names was seen, counted or timed by the mediator's own clock, and cannot
// be made false by the agent. A [Figure] says for itself how it is known. All else is what the agent or the provider says.
//
// Nothing that was said to a model or by it can be guessed from a receipt; the content of a post can, by its contentHash. A tag is the first 128 bits of an HMAC-SHA256 under a key of the session, which
// never leaves the mediator's memory and ends with the session: equal tags in one chain mean equal texts, and nothing else can be learnt.
type Receipt struct {
	evidence.Registered
	evidence.KeyClaims

	// RequestID is the id of the record of the call (post_...), which the mediator has made; of the end of a session the session's id.
	RequestID string `json:"request_id"`
	// ActionType follows from what the receipt is about: see the constants.
	ActionType string `json:"action_type"`
	// PolicyID is the hash of the deployment manifest that the call was judged by.
	PolicyID string `json:"policy_id"`
	// The three commitments are hex SHA-256 of the canonical JSON {"salt": ..., "value": ...}, with 128 bits of salt as base64url
	// (package interaction, Commit). Whoever is shown salt and value can check them; without the salt nothing can be guessed. They are made
	// before the call is sent.
	InputsCommitment      string `json:"inputs_commitment"`      // the hex SHA-256 of the body as it was sent
	ConstraintsCommitment string `json:"constraints_commitment"` // the rule, and what the provider was allowed to do
	LLMCommitment         string `json:"llm_commitment"`         // API, host and model as asked for; of anything but a call to a model: null
	// OutputCleanHash and OutputTransportHash are, of a call to a model, hex HMAC-SHA256 under the key of the session: of what the answer
	// said (the concatenated HMACs of its blocks), and of its bytes as they came. Of an output that was not followed they are HMACs of
	// nothing. Of a post the first is the contentHash of the binding, which the post's other artifacts have too, and the second the HMAC of the
	// body as it was sent.
	OutputCleanHash     string `json:"output_clean_hash"`
	OutputTransportHash string `json:"output_transport_hash"`

	Timing    Timing        `json:"timing"`
	Chain     ChainLink     `json:"chain"`
	Challenge *ChallengeRef `json:"challenge,omitempty"`

	// Owner is the RFC 7638 thumbprint (SHA-256, base64url) of the Ed25519 key of the key registry that certifies the sidecar's keys, and Agent
	// the subject for whom the session acts: together they name the agent. Both are declared in the sidecar's configuration; a verifier
	// compares the owner with the root that it has pinned.
	Owner string `json:"owner"`
	Agent string `json:"agent"`
	// RuntimeID names the runtime as attestations do: declared. EventID names the event that opened the session: observed.
	RuntimeID string `json:"runtime_id"`
	EventID   string `json:"event_id"`
	// Outcome is how the interaction has ended: observed.
	Outcome string `json:"outcome"`
	// Exactly one of these three says what the receipt is about.
	Model   *ModelCall `json:"model_call,omitempty"`
	Post    *PostMade  `json:"post,omitempty"`
	Closing *Closing   `json:"closing,omitempty"`
	// Relayed are the tools of MCP servers that the agent has called through the mediator since the session's receipt before this one,
	// the last MaxRelayed of RelayedCount: observed.
	Relayed      []RelayedCall `json:"relayed,omitempty"`
	RelayedCount int64         `json:"relayed_count"`
	// Session is what was counted of the whole session until this receipt was signed: observed. Calls that do not pass the mediator
	// are not counted.
	Session SessionTotals `json:"session"`

	// Observed names those of the other claims that the mediator saw for itself, of those in [ObservedOf]. Every other one is only declared,
	// but for figures, which each say how they are known.
	Observed []string `json:"observed"`
	// Probabilistic is always true, and NonHumanIdentityProven always false: receipts make a run of an agent likely and prove none.
	Probabilistic          bool `json:"probabilistic"`
	NonHumanIdentityProven bool `json:"nonHumanIdentityProven"`
}

// Timing has the seed's four moments, in Unix milliseconds by the mediator's clock: observed. A moment that was not seen is left out.
type Timing struct {
	RequestReceived int64 `json:"request_received_ms"`        // the head of the request had come
	LLMStart        int64 `json:"llm_start_ms,omitempty"`     // the head of the request to the model had been written
	LLMEnd          int64 `json:"llm_end_ms,omitempty"`       // the answer of the model had come to its end, or broke off
	ResponseSent    int64 `json:"response_sent_ms,omitempty"` // the whole answer had been given to the agent's connection; left out where that failed
}

// ChainLink places a receipt in the one chain of its session: observed, for the mediator makes the chain. A number is given when a
// receipt is signed, so there are no gaps, and iat never falls.
type ChainLink struct {
	PreviousReceiptHash string `json:"previous_receipt_hash,omitempty"` // HashToken of the receipt before; left out in the first
	SessionID           string `json:"session_id"`
	SequenceNumber      int64  `json:"sequence_number"` // from 1
}

// ChallengeRef names the challenge that the agent has to answer (VIN: challenge). The nonce is the issuer's, the commitment the agent's:
// observed as given. CommitmentRevealed says that the agent has shown what it had committed to, and that the hash fits.
type ChallengeRef struct {
	ChallengeNonce     string `json:"challenge_nonce"`
	CommitmentHash     string `json:"commitment_hash,omitempty"`
	CommitmentRevealed bool   `json:"commitment_revealed,omitempty"`
}

// PostMade is what the receipt of a post says besides: all of it observed. The post is named by RequestID.
type PostMade struct {
	BindingHash string          `json:"binding_hash"`
	Status      int64           `json:"status,omitempty"` // of the upstream's answer, of HTTP
	Artifacts   []NamedArtifact `json:"artifacts"`        // of the post's record, in its order
}

// NamedArtifact names an artifact of a record by its hash ([evidence.HashToken]).
type NamedArtifact struct {
	Name string `json:"name"`
	Hash string `json:"hash"`
}

// Closing ends a chain: no receipt of the session follows. Observed. A chain without it may lack receipts at its end.
type Closing struct {
	Reason string `json:"reason"`
}

// RelayedCall is a call of a tool of an MCP server that passed the mediator.
type RelayedCall struct {
	Host      string `json:"host"`                // and port, the last 128 bytes
	Tool      string `json:"tool"`                // as the rule names it
	Arguments string `json:"arguments,omitempty"` // tag of the canonical JSON; left out where it was too large
	CallID    string `json:"call_id,omitempty"`   // tag of the id of the model's call with this tool and these arguments, if there is one
}

// SessionTotals are counted since the session was opened.
type SessionTotals struct {
	OpenedMS         int64 `json:"opened_ms"`          // Unix milliseconds
	Calls            int64 `json:"calls"`              // calls that went out and are over
	CallsObserved    int64 `json:"calls_observed"`     // those of them that were read: to a model, to an MCP server, or a post
	BytesOut         int64 `json:"bytes_out"`          // of the bodies of all of them
	BytesOutObserved int64 `json:"bytes_out_observed"` // of those that were read
}

// The claims that the mediator sees for itself, by what a receipt is about.
var (
	observedOfAll = []string{
		"chain", "constraints_commitment", "event_id", "inputs_commitment", "llm_commitment", "outcome", "output_clean_hash", "output_transport_hash",
		"policy_id", "relayed", "relayed_count", "request_id", "session", "timing",
	}
	observedOfModel = []string{
		"model_call.api", "model_call.hosted_tools", "model_call.host", "model_call.returned_calls", "model_call.rule", "model_call.status",
		"model_call.streamed", "model_call.tool_calls",
	}
)

// observedNames are the names in Observed of one sort of receipt, in order: of one without a challenge, and of one with it.
type observedNames struct{ plain, challenged []string }

func observedWith(about ...string) (n observedNames) {
	n.plain = slices.Concat(observedOfAll, about)
	n.challenged = slices.Concat(n.plain, []string{"challenge"})
	slices.Sort(n.plain)
	slices.Sort(n.challenged)
	return n
}

// The names of each sort, put in order once: each receipt needs them twice.
var (
	namesOfModel   = observedWith(observedOfModel...)
	namesOfPost    = observedWith("post")
	namesOfClosing = observedWith("closing")
	namesOfOther   = observedWith()
)

// ObservedOf returns what Observed of a receipt like c has: the claims that the mediator saw for itself.
func ObservedOf(c Receipt) []string { return slices.Clone(observedOf(&c)) }

// observedOf is ObservedOf, of which nobody may change anything.
func observedOf(c *Receipt) []string {
	names := namesOfOther
	switch {
	case c.Model != nil:
		names = namesOfModel
	case c.Post != nil:
		names = namesOfPost
	case c.Closing != nil:
		names = namesOfClosing
	}
	if c.Challenge != nil {
		return names.challenged
	}
	return names.plain
}
