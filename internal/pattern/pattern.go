// Package pattern compiles regular expressions when they are first used. Each pod starts this program four times, and
// most of its processes never use most expressions.
package pattern

import (
	"regexp"
	"sync"
)

// Pattern returns a regular expression, which its first call compiles. That call panics if the text is none.
type Pattern func() *regexp.Regexp

// New returns the pattern with this text, in the syntax of package regexp.
func New(text string) Pattern {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// MatchString reports whether s contains a match.
func (p Pattern) MatchString(s string) bool { return p().MatchString(s) }

// String returns the text of the pattern.
func (p Pattern) String() string { return p().String() }
