package echo

import (
	"bytes"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// In reports whether a text holds the secret.
func (s *Secret) In(text []byte) bool {
	for from := 0; from+s.window <= len(text); {
		last := from + s.window - 1
		for last >= from && s.inside[text[last]] {
			last--
		}
		if last >= from { // no form contains this byte
			from = last + 1
			continue
		}
		end := from + s.window
		for end < len(text) && s.inside[text[end]] {
			end++
		}
		if s.inRun(text[from:end]) {
			return true
		}
		from = end + 1
	}
	return false
}

// inRun searches a text that has only bytes of forms.
func (s *Secret) inRun(run []byte) bool { return s.inEscaped(withoutZeros(run), nesting) }

// inEscaped searches a text, and what it says without up to so many nested escapes.
func (s *Secret) inEscaped(text []byte, nested int) bool {
	if s.inPlain(text) {
		return true
	}
	for _, e := range escapes {
		if nested == 0 || bytes.IndexByte(text, e.lead) < 0 {
			continue
		}
		if plain := withoutZeros(e.decode(text)); len(plain) < len(text) && s.inEscaped(plain, nested-1) {
			return true
		}
	}
	return false
}

func withoutZeros(text []byte) []byte {
	if bytes.IndexByte(text, 0) < 0 {
		return text
	}
	return bytes.ReplaceAll(text, []byte{0}, nil)
}

// The window's hash is Rabin and Karp's. Its upper bits depend on all bytes.
const hashBase, hashBits = 0x9E3779B97F4A7C15, 12

func (s *Secret) hash(window []byte) (h uint64) {
	for _, b := range window {
		h = h*hashBase + uint64(b)
	}
	return h
}

// inPlain searches for the forms without unescaping. A byte-by-byte search would take longer on a text with a beginning
// of the secret.
func (s *Secret) inPlain(text []byte) bool {
	if len(text) < s.window {
		return false
	}
	h, drop := s.hash(text[:s.window]), s.drop
	for i, in := range text[s.window:] {
		if s.begins[h>>(64-hashBits)] && s.at(text[i:]) {
			return true
		}
		h = h*hashBase + (uint64(in) - uint64(text[i])*drop)
	}
	return s.at(text[len(text)-s.window:])
}

func (s *Secret) at(text []byte) bool {
	return slices.ContainsFunc(s.forms, func(form []byte) bool { return bytes.HasPrefix(text, form) })
}

// escapes are the ways in which servers escape characters. They nest, as JSON in JSON or in a URL. Each further level
// takes three times as long.
var escapes = []struct {
	lead   byte
	decode func([]byte) []byte
}{
	{'\\', unescapeJSON}, {'&', unescapeHTML}, {'%', unescapePercent},
}

const nesting = 3

func unescapeHTML(text []byte) []byte { return []byte(html.UnescapeString(string(text))) }

// unescapeJSON decodes JSON's escapes and JavaScript's \x00. A backslash before another letter or digit stays.
func unescapeJSON(text []byte) []byte {
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '\\' || i+1 == len(text) {
			plain = append(plain, c)
			continue
		}
		switch next := text[i+1]; {
		case next == 'u':
			if v, ok := hexAt(text, i+2, 4); ok {
				plain = utf8.AppendRune(plain, rune(v))
				i += 5
				continue
			}
		case next == 'x':
			if v, ok := hexAt(text, i+2, 2); ok {
				plain = append(plain, byte(v))
				i += 3
				continue
			}
		case strings.IndexByte(`"'/\`, next) >= 0:
			plain = append(plain, next)
			i++
			continue
		}
		plain = append(plain, c)
	}
	return plain
}

func unescapePercent(text []byte) []byte {
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if v, ok := hexAt(text, i+1, 2); ok && c == '%' {
			c = byte(v)
			i += 2
		}
		plain = append(plain, c)
	}
	return plain
}

func hexAt(text []byte, i, n int) (uint64, bool) {
	if i+n > len(text) {
		return 0, false
	}
	v, err := strconv.ParseUint(string(text[i:i+n]), 16, 32)
	return v, err == nil
}
