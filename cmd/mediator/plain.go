package main

import (
	"io"
	"strings"
	"unicode"
)

// plainWriter writes text for a terminal. What others chose, an agent or whoever made a file, cannot steer the terminal with it:
// control characters and those that turn the direction of a line stand as a question mark. It is written to in whole characters.
type plainWriter struct{ w io.Writer }

func (p plainWriter) Write(text []byte) (int, error) {
	plain := strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return '?'
		}
		return r
	}, string(text))
	if _, err := io.WriteString(p.w, plain); err != nil {
		return 0, err
	}
	return len(text), nil
}
