package inference

import (
	"cmp"
	"crypto/sha256"
	"time"
)

// State says how a figure is known.
type State string

// The states.
const (
	NotMeasured State = ""
	Observed    State = "observed"  // seen or timed here
	Declared    State = "declared"  // the provider says so, which cannot be checked
	Estimated   State = "estimated" // made of what was seen
)

// String returns the state as records have it.
func (s State) String() string { return cmp.Or(string(s), "not_measured") }

// Moment is a time by the clock of the mediator.
type Moment struct {
	At    time.Time
	State State
}

// Count is a number.
type Count struct {
	N     int64
	State State
}

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

// Interaction is what is known of one call to a model.
type Interaction struct {
	Request *Request
	Outcome Outcome
	// Reason says why the answer was not followed; what was not seen then is not measured.
	Reason string
	Status int // of HTTP; 0 if there was no answer

	// Sent is when the head of the request had been written, First when the first piece of content had come, of a stream.
	Received, Sent, Head, First, End Moment
	// Ready is when the client could have read all that was said: when the last content came, less the time for which the
	// client had not taken what had come before it. What follows the content of a stream, such as pings, does not delay
	// it.
	Ready      time.Time
	DeltaCount Count // pieces in which a stream came

	ID       string // of the answer, as the provider says
	Model    string // that has answered, as the provider says
	Streamed bool
	Stops    []Stop
	Error    string // the provider's code for what went wrong
	// Said are the blocks of the answer in the order in which they began. There are more if SaidAll is not set.
	Said      []Block
	SaidAll   bool
	SaidBytes int // of text, and of arguments
	// HostedCalls counts what the provider's own tools did, as the answer shows it.
	HostedCalls Count
	// Tokens. Input has all that the model was given, Cached what of it came from a cache; Reasoning is a part of Output.
	Input, Output, Cached, Reasoning Count

	// Of a call that is measured: Sample is the first text of the answer, of its first choice, and Transport the HMAC of
	// the bytes of its body.
	Sample    []byte
	Transport [sha256.Size]byte
}
