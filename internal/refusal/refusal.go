// Package refusal holds the one error type of all refusals: a stable code for programs and a sentence for people.
package refusal

import "fmt"

// Refusal is an error with a stable code. It never holds a secret, a body or a whole token. Operators read all of it.
// What an agent may read of it, package problem decides by the code; never what [Refusal.ForOperator] added.
type Refusal struct {
	code     string
	detail   string
	operator string // more, for operators alone
	cause    error
}

// New makes a [Refusal]. The code is stable: snake_case, never reused for another meaning. The sentence says what
// failed, and where. %w wraps a cause for errors.Is. The text of the cause becomes part of the sentence, so wrap only a
// cause that the caller may read.
func New(code, format string, args ...any) *Refusal {
	err := fmt.Errorf(format, args...)
	r := &Refusal{code: code, detail: err.Error()}
	if u, ok := err.(interface{ Unwrap() error }); ok {
		r.cause = u.Unwrap()
	}
	return r
}

// Code returns the stable code, as listed in docs/errors.md.
func (r *Refusal) Code() string { return r.code }

// ForOperator returns the refusal with more in its sentence, after a comma, which only operators read: an address, or
// what another program said.
func (r *Refusal) ForOperator(format string, args ...any) *Refusal {
	more := *r
	more.operator = fmt.Sprintf(format, args...)
	return &more
}

// Error returns the sentence, with what is for operators.
func (r *Refusal) Error() string {
	if r.operator == "" {
		return r.detail
	}
	return r.detail + ", " + r.operator
}

// Public returns the sentence without what is for operators.
func (r *Refusal) Public() string { return r.detail }

// Unwrap returns the wrapped cause, or nil.
func (r *Refusal) Unwrap() error { return r.cause }

// Is reports whether target is a [Refusal] with the same code. errors.Is(err, refusal.New("expired", "")) thus compares
// the code and never the sentence.
func (r *Refusal) Is(target error) bool {
	t, ok := target.(*Refusal)
	return ok && t.code == r.code
}

// Later is a refusal that says when trying again can help.
type Later struct {
	*Refusal
	Seconds int // from now, at least 1
}

// RetryAfter returns the seconds, for package problem.
func (l Later) RetryAfter() int { return l.Seconds }

// Unwrap returns the refusal itself, so that errors.As finds it.
func (l Later) Unwrap() error { return l.Refusal }
