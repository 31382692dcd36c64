package ledger

import (
	"errors"
	"fmt"
	"strings"
)

// Only [Error], [ConsumedError], [ReplacedError] and [SeveralError] have codes; the mediator handles the other errors.
var (
	ErrConsumed = errors.New("ledger: already used")
	// ErrNotFound means that no record has an id with this beginning.
	ErrNotFound = errors.New("ledger: no such record")
	// ErrState means that the post had not begun or already had an outcome, or that this call does not record this
	// state.
	ErrState        = errors.New("ledger: the post is not in flight")
	ErrForked       = errors.New("ledger: another receipt has this number in its chain")
	ErrClosed error = &Error{err: errors.New("ledger: closed")}
)

// Error is a failure to read, or to make something durable.
type Error struct{ err error }

func (e *Error) Code() string { return "ledger_unavailable" }

func (e *Error) Error() string { return e.err.Error() }

func (e *Error) Unwrap() error { return errors.Unwrap(e.err) }

// Unavailable makes the [*Error] of a ledger that failed at doing something.
func Unavailable(doing string, err error) error {
	return &Error{fmt.Errorf("ledger: %s: %w", doing, err)}
}

// Forgotten refuses a key that expires no later than a pruned one: whether it was used is unknown.
func Forgotten(k Key) error {
	return Unavailable("consume", fmt.Errorf("the ledger does not know which keys of this time were used (%s): is the "+
		"clock right, or was the ledger accepted a short time ago?", k.Kind))
}

// ReplacedError means that the ledger is another one, or an older copy of itself.
type ReplacedError struct{ detail string }

func (e *ReplacedError) Code() string { return "ledger_replaced" }

func (e *ReplacedError) Error() string { return e.detail }

// Gone is the error of a missing file of a ledger that was used before.
func Gone(name string) error {
	return replaced("the ledger %s is missing: the consumed keys and the records are lost", name)
}

func replaced(format string, args ...any) error {
	return &ReplacedError{fmt.Sprintf(format, args...) +
		". Put the ledger back; if this one is meant, accept it with mediator ledger accept"}
}

// MaxSeveral bounds the ids in a [SeveralError].
const MaxSeveral = 10

// SeveralError means that several records have an id with this beginning.
type SeveralError struct {
	Prefix string
	IDs    []string // sorted, at most MaxSeveral
	More   bool     // there are more
}

func (e *SeveralError) Code() string { return "not_found" }

func (e *SeveralError) Error() string {
	if e.More {
		return fmt.Sprintf("more than %d records have an id that begins with %.80q; the first are %s", MaxSeveral,
			e.Prefix, strings.Join(e.IDs, ", "))
	}
	return fmt.Sprintf("%d records have an id that begins with %.80q: %s", len(e.IDs), e.Prefix,
		strings.Join(e.IDs, ", "))
}

// ForkedError means that a session's chain has another receipt with this number. The chain takes no more receipts.
type ForkedError struct{ Session string }

func (e *ForkedError) Error() string {
	return fmt.Sprintf("ledger: the chain of session %s has a different receipt with this number", e.Session)
}

// Is makes [ErrForked] match.
func (e *ForkedError) Is(target error) bool { return target == ErrForked }

// ConsumedError names the single-use key that was used before.
type ConsumedError struct{ Key Key }

func (e *ConsumedError) Code() string { return "replayed" }

func (e *ConsumedError) Error() string {
	return fmt.Sprintf("the %s %s has been used before; each is good for one post", e.Key.Kind, e.Key.ID)
}

// Is makes [ErrConsumed] match.
func (e *ConsumedError) Is(target error) bool { return target == ErrConsumed }
