package ledger

import (
	"errors"
	"fmt"
	"strings"
)

// What a caller tests for. Only [Error], [ConsumedError], [ReplacedError] and [SeveralError] have a code: the others
// are answers to the mediator's own programs.
var (
	// ErrConsumed is the sentinel of [ConsumedError].
	ErrConsumed = errors.New("ledger: already used")
	// ErrNotFound means that no record has the id, or one that begins with it. See [SeveralError].
	ErrNotFound = errors.New("ledger: no such record")
	// ErrState means that a post was finished that had not begun, or had been finished already, or that a state was given
	// which that call does not record.
	ErrState = errors.New("ledger: the post is not in flight")
	// ErrForked is the sentinel of [ForkedError].
	ErrForked = errors.New("ledger: another receipt has this number in its chain")
	// ErrClosed means that the ledger is closed.
	ErrClosed error = &Error{err: errors.New("ledger: closed")}
)

// Error is a failure to read or to make something durable.
type Error struct{ err error }

// Code returns ledger_unavailable.
func (e *Error) Code() string { return "ledger_unavailable" }

// Error returns the sentence.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return errors.Unwrap(e.err) }

// Unavailable makes the [*Error] of a ledger that could not do something.
func Unavailable(doing string, err error) error {
	return &Error{fmt.Errorf("ledger: %s: %w", doing, err)}
}

// Forgotten refuses a key that expires no later than one that has been pruned: nobody knows any more whether it was
// used.
func Forgotten(k Key) error {
	return Unavailable("consume",
		fmt.Errorf(
			"the %s expires at a time for which the ledger does not know which keys were used: is the clock right, or was "+
				"the ledger accepted a short time ago?", k.Kind))
}

// ReplacedError says that a ledger is not the one that was there before, or an older copy of it.
type ReplacedError struct{ detail string }

// Code returns ledger_replaced.
func (e *ReplacedError) Code() string { return "ledger_replaced" }

// Error returns the sentence.
func (e *ReplacedError) Error() string { return e.detail }

// Gone says that the file of a ledger that was used before is not there any more.
func Gone(name string) error {
	return &ReplacedError{fmt.Sprintf("the ledger %s is not there any more: which keys are consumed, and the records, "+
		"are lost. %s", name, howToAccept)}
}

// MaxSeveral bounds how many ids a [SeveralError] names.
const MaxSeveral = 10

// SeveralError says that several records have an id that begins with what was asked for.
type SeveralError struct {
	Prefix string
	IDs    []string // in order, MaxSeveral at most
	More   bool     // there are more than those
}

// Code returns not_found.
func (e *SeveralError) Code() string { return "not_found" }

// Error returns the sentence.
func (e *SeveralError) Error() string {
	if e.More {
		return fmt.Sprintf("more than %d records have an id that begins with %.80q; the first are %s", MaxSeveral, e.Prefix,
			strings.Join(e.IDs, ", "))
	}
	return fmt.Sprintf("%d records have an id that begins with %.80q: %s", len(e.IDs), e.Prefix, strings.Join(e.IDs, ", "))
}

// ForkedError says of which session a receipt is whose number in the chain is that of another one, so that the chain
// takes no receipt any more.
type ForkedError struct{ Session string }

// Error returns the sentence.
func (e *ForkedError) Error() string {
	return fmt.Sprintf("ledger: the chain of session %s has another receipt of the same number", e.Session)
}

// Is reports whether target is ErrForked.
func (e *ForkedError) Is(target error) bool { return target == ErrForked }

// ConsumedError says which single-use key had been used before.
type ConsumedError struct{ Key Key }

// Code returns replayed.
func (e *ConsumedError) Code() string { return "replayed" }

// Error returns the sentence.
func (e *ConsumedError) Error() string {
	return fmt.Sprintf("the %s %s has been used before; each is good for one post", e.Key.Kind, e.Key.ID)
}

// Is reports whether target is ErrConsumed.
func (e *ConsumedError) Is(target error) bool { return target == ErrConsumed }
