// Package terminal keeps foreign text from steering a terminal or drawing lines of its own. An agent, or the author of
// a file, may have chosen parts of what commands print and processes log.
package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// steers reports whether a character controls a terminal, or turns the direction of a line.
func steers(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// Plain replaces characters that steer a terminal by question marks. Line ends and tabs stay.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && steers(r) {
			return '?'
		}
		return r
	}, text)
}

// Unbroken replaces line ends and tabs, so that foreign text cannot draw lines or columns of its own.
func Unbroken(text string) string { return strings.NewReplacer("\n", "?", "\t", "?").Replace(text) }

// Indented indents all lines but the first, so that no part of a message looks like another message.
func Indented(text string) string { return strings.ReplaceAll(text, "\n", "\n    ") }

// JSON escapes what steers a terminal in whole lines of JSON, which escapes all below a space already.
func JSON(lines []byte) []byte {
	if !bytes.ContainsFunc(lines, func(r rune) bool { return r != '\n' && steers(r) }) {
		return lines
	}
	plain := make([]byte, 0, len(lines)+64)
	for _, r := range string(lines) {
		if r != '\n' && steers(r) {
			plain = fmt.Appendf(plain, `\u%04x`, r)
		} else {
			plain = utf8.AppendRune(plain, r)
		}
	}
	return plain
}
