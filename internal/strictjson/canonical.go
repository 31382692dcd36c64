package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/internal/refusal"
)

// Bounds on posted JSON.
const (
	MaxDepth = 100     // nesting
	MaxItems = 200_000 // names and values; sorting a member takes some two hundred times the memory of its shortest spelling
)

// Canonical returns the RFC 8785 form of one JSON text. It refuses invalid JSON, invalid UTF-8, lone surrogates, duplicate
// member names, nesting over [MaxDepth] and more than [MaxItems] names and values; and, more strictly than the RFC, numbers that an IEEE 754 double does not hold
// (integers beyond 2^53 that would be rounded, underflow to zero), because two different contents would share one hash.
func Canonical(raw []byte) ([]byte, error) {
	if err := checkBounds(raw); err != nil {
		return nil, err
	}
	c := jsontext.Value(bytes.Clone(raw))
	if err := c.Canonicalize(); err != nil {
		return nil, refusal.New("content_malformed", "the JSON content has no canonical form (RFC 8785): %v", misspelt(raw, err))
	}
	return c, nil
}

// CanonicalOf returns the [Canonical] form of a value, as encoding/json writes it.
func CanonicalOf(v any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // the form has no such escapes
	if err := enc.Encode(v); err != nil {
		return nil, refusal.New("content_malformed", "the value cannot be written as JSON: %v", err)
	}
	return Canonical(text.Bytes())
}

// checkBounds walks the text once, and looks at its numbers, its depth and how many names and values it has. It does not judge
// syntax: that is the canonicaliser's work.
func checkBounds(raw []byte) error {
	depth, items := 0, 0
	for i := 0; i < len(raw); {
		c := raw[i]
		if c == '"' || c == '{' || c == '[' || startsNumber(c) || c == 't' || c == 'f' || c == 'n' { // a name or a value begins
			items++
		}
		switch {
		case items > MaxItems:
			return refusal.New("content_malformed", "the JSON content holds more than %d names and values; send less at once, or configure the action with content: raw", MaxItems)
		case c == '"':
			i = skipString(raw, i)
			continue
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return refusal.New("content_malformed", "the JSON content is nested deeper than %d levels at %s", MaxDepth, position(raw, i))
			}
		case c == '}' || c == ']':
			depth--
		case startsNumber(c):
			end := i + 1
			for end < len(raw) && isNumberByte(raw[end]) {
				end++
			}
			if !faithful(string(raw[i:end])) {
				return refusal.New("content_malformed", "the number %.40s at %s does not fit an IEEE 754 double exactly enough for RFC 8785; send it as a string, or configure the action with content: raw", raw[i:end], position(raw, i))
			}
			i = end
			continue
		}
		i++
	}
	return nil
}

// skipString returns the index after the string that starts at raw[i].
func skipString(raw []byte, i int) int {
	for i++; ; {
		end := bytes.IndexByte(raw[i:], '"')
		if end < 0 {
			return len(raw)
		}
		i += end + 1
		escapes := 0
		for raw[i-2-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 { // each of them escapes the next, and none the quote
			return i
		}
	}
}

func startsNumber(c byte) bool { return c == '-' || c >= '0' && c <= '9' }

func isNumberByte(c byte) bool {
	return startsNumber(c) || c == '.' || c == 'e' || c == 'E' || c == '+'
}

// maxNumberLength bounds a number's spelling, and with it the arithmetic that checks it. Every double written out in full, without an
// exponent, is shorter.
const maxNumberLength = 1100

// faithful reports whether a number's canonical form says the same. Below 2^53 a double stands for all decimals that are nearest to it: programs
// write the same one with more digits or with fewer. What is no number it leaves to the canonicaliser.
func faithful(s string) bool {
	if len(s) > maxNumberLength {
		return false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return !errors.Is(err, strconv.ErrRange)
	}
	if f == 0 {
		mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
		return !strings.ContainsAny(mantissa, "123456789") // a zero that was not spelled as one has underflowed
	}
	if f < 1<<53 && f > -(1<<53) {
		return true
	}
	// Beyond 2^53 doubles lie further apart than integers. RFC 8785 writes each as its shortest decimal; any other decimal would
	// change its value on the way, and share its hash with that one.
	given, ok := new(big.Rat).SetString(s)
	shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return ok && given.Cmp(shortest) == 0
}
