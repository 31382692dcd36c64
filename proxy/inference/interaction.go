package inference

import (
	"crypto/sha256"
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
)

// Outcome is how a call has ended.
type Outcome string

// The outcomes.
const (
	OutcomeComplete   Outcome = "complete"
	OutcomeFailed     Outcome = "failed"     // the provider says that it could not answer, or not to the end
	OutcomeUnfinished Outcome = "unfinished" // the provider goes on when the answer has ended
	OutcomeCut        Outcome = "cut"        // the answer broke off before its end
	// the client went away before the answer's end; the caller of the observer says so
	OutcomeLeft   Outcome = "left"
	OutcomeUnread Outcome = "not_measured"
)

// Why an answer was not followed to its end.
const (
	ReasonNone     = ""
	ReasonBehind   = "behind"    // the reader was slower than the answer
	ReasonTooLarge = "too_large" // the answer, or an event of it
	ReasonNoMemory = "no_memory" // too many answers are read at once
	ReasonEncoding = "encoding"  // it is compressed otherwise than by gzip, or not by gzip
	ReasonType     = "type"      // it is neither JSON nor a stream of events
	ReasonFormat   = "malformed" // it is not as the API has it
	ReasonFault    = "fault"     // of the reader
)

// Block is a block of content: a text, a call, a result. Of its text it has the size and an HMAC-SHA256 under the key
// of the session.
type Block struct {
	Role string // of a request: who says it
	Kind Kind
	ID   string // of a call or a result: the provider's id of the call, or what stands for one that is no name
	Name string // of a call: the tool
	// Size is in bytes of UTF-8: for a call that of its arguments.
	Size int
	// Hash is of the text, for a call of the canonical JSON of its arguments. Zero: the block was too large to be hashed.
	Hash [sha256.Size]byte

	// Measured is there where the call is measured; of a request if the block was not in the session before.
	Measured *Measured
}

// Stop is why a choice has ended, as the provider says.
type Stop struct {
	Choice int
	Reason string
}

// Interaction is what the mediator knows of one call to a model. A zero time was not seen, and a figure without a state
// was not measured.
type Interaction struct {
	Request *Request
	Outcome Outcome
	Reason  string // why the answer was not followed; the rest is then not measured
	Status  int    // of HTTP; 0 without an answer

	// Sent is when the request's head had been written, Head when the answer's head came, First when the first content of
	// a stream came.
	Received, Sent, Head, First, End time.Time
	// Ready is when the client could have read the whole answer: when the last content came, less the time for which the
	// client left earlier content unread. Pings and the like after the content do not delay it.
	Ready  time.Time
	Deltas interaction.Figure // pieces of a stream's content

	Model    string // that answered, as the provider says
	Streamed bool
	Stops    []Stop
	Error    string // the provider's error code
	// Said are the blocks of the answer in the order in which they began; all of them only if SaidAll is set.
	Said        []Block
	SaidAll     bool
	SaidBytes   int                // of text and arguments
	HostedCalls interaction.Figure // calls of the provider's own tools, as the answer shows them
	// Tokens. Cached is a part of Input, Reasoning a part of Output.
	Input, Output, Cached, Reasoning interaction.Figure

	// For a measured call: the first text of the first choice, and the HMAC of the body's bytes.
	Sample    []byte
	Transport [sha256.Size]byte
}
