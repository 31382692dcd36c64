// Package refusal has the error type of all refusals.
package refusal

import (
	"errors"
	"fmt"
)

// Refusal is an error with a stable code for programs and a sentence for people. It never holds a secret, a body or a
// whole token. Package problem decides what an agent may read of it.
type Refusal struct {
	code     string
	detail   string
	operator string // for operators only
	cause    error
}

// New makes a [Refusal]. %w wraps a cause and puts its text into the sentence: wrap only what the caller may read.
func New(code, format string, args ...any) *Refusal {
	err := fmt.Errorf(format, args...)
	r := &Refusal{code: code, detail: err.Error()}
	if u, ok := err.(interface{ Unwrap() error }); ok {
		r.cause = u.Unwrap()
	}
	return r
}

func (r *Refusal) Code() string { return r.code }

// CodeOf returns the code of err, or "" if it has none. err need not be a [Refusal].
func CodeOf(err error) string {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return ""
}

// ForOperator adds a clause that only operators read, such as an address or another program's words.
func (r *Refusal) ForOperator(format string, args ...any) *Refusal {
	more := *r
	more.operator = fmt.Sprintf(format, args...)
	return &more
}

func (r *Refusal) Error() string {
	if r.operator == "" {
		return r.detail
	}
	return r.detail + ", " + r.operator
}

// Public returns the sentence without the operators' part.
func (r *Refusal) Public() string { return r.detail }

func (r *Refusal) Unwrap() error { return r.cause }

// Is compares codes: errors.Is(err, refusal.New("expired", "")).
func (r *Refusal) Is(target error) bool {
	t, ok := target.(*Refusal)
	return ok && t.code == r.code
}

// Later is a refusal that a retry may mend.
type Later struct {
	*Refusal
	Seconds int // from now, at least 1
}

// RetryAfter is in seconds.
func (l Later) RetryAfter() int { return l.Seconds }

func (l Later) Unwrap() error { return l.Refusal }
