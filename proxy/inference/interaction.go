package inference

import (
	"crypto/sha256"
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
)

// Outcome says how a model's answer ended.
type Outcome string

const (
	OutcomeComplete   Outcome = "complete"
	OutcomeFailed     Outcome = "failed"     // the provider could not answer, or not to the end
	OutcomeUnfinished Outcome = "unfinished" // the provider goes on after its answer
	OutcomeCut        Outcome = "cut"        // the answer broke off
	OutcomeLeft       Outcome = "left"       // the client left before the end; the observer's caller sets it
	OutcomeUnread     Outcome = "not_measured"
)

// Reasons why an answer was not followed to its end.
const (
	ReasonNone     = ""
	ReasonBehind   = "behind"    // the reader was slower than the answer
	ReasonTooLarge = "too_large" // the answer, or an event of it
	ReasonNoMemory = "no_memory" // too many answers are read at once
	ReasonEncoding = "encoding"  // neither plain nor gzip
	ReasonType     = "type"      // neither JSON nor events
	ReasonFormat   = "malformed" // it does not follow its API
	ReasonFault    = "fault"     // of the reader
)

// Block is a block of content: a text, a call, a result.
type Block struct {
	Role string // in a request: who says it
	Kind Kind
	ID   string // of a call or result: the provider's id of the call, or a hash if that is not a name
	Name string // of a call: the tool
	// bytes of UTF-8; of a call, of its arguments
	Size int
	// HMAC under the session's key of the text, or of a call's arguments as canonical JSON; zero if it was too large
	Hash [sha256.Size]byte

	// set for a measured call; in a request, only for a block that is new in the session
	Measured *Measured
}

// Stop is the provider's reason for ending a choice.
type Stop struct {
	Choice int
	Reason string
}

// Interaction is what the mediator knows of one call. A zero time was not seen; a figure without state not measured.
type Interaction struct {
	Request *Request
	Outcome Outcome
	Reason  string // why the answer was not followed; the rest is then not measured
	Status  int    // of HTTP; 0 without an answer

	// when the request's head was written, the answer's head came, and the first content of a stream came
	Received, Sent, Head, First, End time.Time
	// when the client could have read the whole answer: when the last content came, less the time of unread content
	Ready  time.Time
	Deltas interaction.Figure // pieces of a stream's content

	Model    string // that answered, as the provider says
	Streamed bool
	Stops    []Stop
	Error    string // the provider's error code
	// the blocks of the answer in the order in which they began; all of them only if SaidAll is set
	Said        []Block
	SaidAll     bool
	SaidBytes   int                // of text and arguments
	HostedCalls interaction.Figure // calls of the provider's own tools, as the answer shows them
	// tokens; Cached is a part of Input, Reasoning of Output
	Input, Output, Cached, Reasoning interaction.Figure

	// of a measured call: the first text of the first choice, and the HMAC of the body's bytes
	Sample    []byte
	Transport [sha256.Size]byte
}
