package ledger

import (
	"errors"
	"fmt"
	"strings"
)

// Only [Error], [ConsumedError], [ReplacedError] and [SeveralError] have a code; the mediator handles the others.
var (
	// ErrConsumed is the sentinel of [ConsumedError].
	ErrConsumed = errors.New("ledger: already used")
	// ErrNotFound means that no record has an id that begins so.
	ErrNotFound = errors.New("ledger: no such record")
	// ErrState means that the finished post had not begun or had an outcome, or that the call does not record this state.
	ErrState = errors.New("ledger: the post is not in flight")
	// ErrForked is the sentinel of [ForkedError].
	ErrForked = errors.New("ledger: another receipt has this number in its chain")
	// ErrClosed means that the ledger is closed.
	ErrClosed error = &Error{err: errors.New("ledger: closed")}
)

// Error is a failure to read, or to make something durable.
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

// Forgotten refuses a key that expires no later than a pruned one: whether it was used is not known any more.
func Forgotten(k Key) error {
	return Unavailable("consume",
		fmt.Errorf(
			"the ledger does not know which keys of this time were used (%s): is the clock right, or was the ledger "+
				"accepted a short time ago?", k.Kind))
}

// ReplacedError says that another ledger, or an older copy, is in the place of the one used before.
type ReplacedError struct{ detail string }

// Code returns ledger_replaced.
func (e *ReplacedError) Code() string { return "ledger_replaced" }

// Error returns the sentence.
func (e *ReplacedError) Error() string { return e.detail }

// Gone says that the file of the ledger used before is missing.
func Gone(name string) error {
	return &ReplacedError{fmt.Sprintf("the ledger %s is missing: the consumed keys and the records are lost. %s",
		name, howToAccept)}
}

// MaxSeveral bounds how many ids a [SeveralError] names.
const MaxSeveral = 10

// SeveralError says that several records have an id with this beginning.
type SeveralError struct {
	Prefix string
	IDs    []string // in order, at most MaxSeveral
	More   bool     // there are more
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

// ForkedError says that a session's chain has another receipt of the same number. The chain takes no more receipts.
type ForkedError struct{ Session string }

// Error returns the sentence.
func (e *ForkedError) Error() string {
	return fmt.Sprintf("ledger: the chain of session %s has another receipt of the same number", e.Session)
}

// Is reports whether target is ErrForked.
func (e *ForkedError) Is(target error) bool { return target == ErrForked }

// ConsumedError names the single-use key that had been used before.
type ConsumedError struct{ Key Key }

// Code returns replayed.
func (e *ConsumedError) Code() string { return "replayed" }

// Error returns the sentence.
func (e *ConsumedError) Error() string {
	return fmt.Sprintf("the %s %s has been used before; each is good for one post", e.Key.Kind, e.Key.ID)
}

// Is reports whether target is ErrConsumed.
func (e *ConsumedError) Is(target error) bool { return target == ErrConsumed }
