package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/actionproof/mediator/internal/refusal"
)

// Canonical returns the RFC 8785 form of one JSON text. It refuses invalid JSON, invalid UTF-8, lone surrogates,
// duplicate names, nesting over [MaxDepth], more than [MaxItems] names and values, and numbers that a double does not
// hold: rounded, two different contents would share one hash.
func Canonical(raw []byte) ([]byte, error) {
	r := reader{raw: raw, bounded: true, write: true, out: make([]byte, 0, len(raw))}
	if err := r.document(nil, reflect.Value{}); err != nil {
		return nil, err.refusal(raw)
	}
	return r.out, nil
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

// emit appends one byte of the canonical form and returns where it is.
func (r *reader) emit(c byte) int {
	if r.write {
		r.out = append(r.out, c)
	}
	return len(r.out) - 1
}

// sort orders the members of an object whose canonical form begins in out at begin. It returns the second of two equal
// names.
func (r *reader) sort(members []member, begin int) (twice *member) {
	slices.SortStableFunc(members, func(a, b member) int { return compare(a.name, b.name) })
	for i := range members[1:] {
		if bytes.Equal(members[i].name, members[i+1].name) {
			return &members[i+1]
		}
	}
	if !r.write {
		return nil
	}
	r.scratch = r.scratch[:0]
	for i, m := range members {
		if i > 0 {
			r.scratch = append(r.scratch, ',')
		}
		r.scratch = append(r.scratch, r.out[m.start:m.end]...)
	}
	r.out = append(r.out[:begin+1], r.scratch...)
	return nil
}

// compare compares by UTF-16 code units (RFC 8785 section 3.2.3).
func compare(a, b []byte) int {
	for len(a) > 0 && len(b) > 0 {
		x, n := utf8.DecodeRune(a)
		y, m := utf8.DecodeRune(b)
		if x != y {
			return cmp.Compare(codeUnit(x), codeUnit(y))
		}
		a, b = a[n:], b[m:]
	}
	return cmp.Compare(len(a), len(b))
}

// codeUnit puts characters with surrogates before U+E000.
func codeUnit(char rune) rune {
	switch {
	case char > 0xffff:
		return char
	case char >= 0xe000:
		return char + utf8.MaxRune
	}
	return char
}

// AppendText appends UTF-8 text as RFC 8785 spells it.
func AppendText[T string | []byte](to []byte, text T) []byte {
	const hex = "0123456789abcdef"
	to = append(to, '"')
	start := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		to, start = append(append(to, text[start:i]...), '\\'), i+1
		switch c {
		case '"', '\\':
			to = append(to, c)
		case '\b':
			to = append(to, 'b')
		case '\f':
			to = append(to, 'f')
		case '\n':
			to = append(to, 'n')
		case '\r':
			to = append(to, 'r')
		case '\t':
			to = append(to, 't')
		default:
			to = append(to, 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(to, text[start:]...), '"')
}

// appendQuoted appends a string with the spelling raw, which is canonical without an escape.
func appendQuoted(to, s, raw []byte) []byte {
	if len(raw) == len(s)+2 {
		return append(to, raw...)
	}
	return AppendText(to, s)
}

// AppendNumber appends a finite double as ECMAScript writes it (RFC 8785 section 3.2.2.3).
func AppendNumber(to []byte, f float64) []byte {
	if f == 0 { // -0 too
		return append(to, '0')
	}
	if abs := math.Abs(f); 1e-6 <= abs && abs < 1e21 {
		return strconv.AppendFloat(to, f, 'f', -1, 64)
	}
	to = strconv.AppendFloat(to, f, 'e', -1, 64)
	if n := len(to); to[n-4] == 'e' && to[n-2] == '0' { // the exponent has no leading zero
		to = append(to[:n-2], to[n-1])
	}
	return to
}

const (
	// Every double holds exactDigits decimal digits exactly.
	exactDigits = 15
	// maxNumber bounds a number's spelling, and so the arithmetic that checks it. Every double written out in full is
	// shorter.
	maxNumber = 1100
)

// faithful reports whether a number's canonical form means the same. Below 2^53 a double represents every decimal
// nearest to it.
func faithful(s string) (f float64, ok bool) {
	if len(s) > maxNumber {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil: // out of range
		return 0, false
	case f == 0:
		mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
		return f, !strings.ContainsAny(mantissa, "123456789") // otherwise it has underflowed
	case math.Abs(f) < 1<<53:
		return f, true
	}
	// Beyond 2^53 the canonical form is the shortest decimal of a double. Another decimal would share its hash.
	given, ok := new(big.Rat).SetString(s)
	shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return f, ok && given.Cmp(shortest) == 0
}
