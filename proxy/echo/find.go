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
		if last >= from { // no form reaches over this byte
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

// inRun reports whether a text holds the secret that consists of bytes that a form can have.
func (s *Secret) inRun(run []byte) bool {
	if bytes.IndexByte(run, 0) >= 0 {
		run = bytes.ReplaceAll(run, []byte{0}, nil) // UTF-16 and UTF-32 have them beside each letter
	}
	if s.inPlain(run) {
		return true
	}
	texts := [][]byte{run}
	for _, e := range escapes {
		for _, text := range texts {
			if bytes.IndexByte(text, e.lead) < 0 {
				continue
			}
			plain := e.decode(text)
			if slices.ContainsFunc(texts, func(t []byte) bool { return bytes.Equal(t, plain) }) {
				continue
			}
			if s.inPlain(plain) {
				return true
			}
			texts = append(texts, plain)
		}
	}
	return false
}

// The hash of a window is that of Rabin and Karp. Its upper bits depend on all bytes.
const hashBase, hashBits = 0x9E3779B97F4A7C15, 12

func (s *Secret) hash(window []byte) (h uint64) {
	for _, b := range window {
		h = h*hashBase + uint64(b)
	}
	return h
}

// inPlain reports whether a form stands in a text as it is. A search that compares byte by byte would take longer where the text
// has a beginning of the secret.
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
	for _, form := range s.forms {
		if bytes.HasPrefix(text, form) {
			return true
		}
	}
	return false
}

// escapes are the ways in which servers write characters that have a meaning where they stand. One can be within another, such as
// JSON in JSON or in HTML: each is taken off the text as it came, and off what the ones before it have left.
var escapes = []struct {
	lead   byte
	decode func([]byte) []byte
}{
	{'\\', unescapeJSON},
	{'&', func(text []byte) []byte { return []byte(html.UnescapeString(string(text))) }},
	{'\\', unescapeJSON},
	{'%', unescapePercent},
}

// unescapeJSON takes off the escapes of JSON, and \x00 of JavaScript. A backslash before another letter or a digit stays.
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

// unescapePercent takes off percent-encoding (RFC 3986 section 2.1).
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

// hexAt reads the n hexadecimal digits that stand at i.
func hexAt(text []byte, i, n int) (uint64, bool) {
	if i+n > len(text) {
		return 0, false
	}
	v, err := strconv.ParseUint(string(text[i:i+n]), 16, 32)
	return v, err == nil
}
