// Package jsonread reads JSON so that no other parser reads it differently.
package jsonread

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds on a text.
const (
	MaxDepth = 64      // nesting of a client's text
	MaxItems = 200_000 // names and values; a member takes some forty times the memory of its shortest spelling

	maxAnswerDepth = 128  // of a server's text; some clients read up to 199 levels
	maxDigits      = 4096 // of a number; some clients read up to 4,300
)

// Reasons for a refusal. Each error wraps one of them, and quotes nothing of the text but the name of a member.
var (
	ErrMalformed = errors.New("it is not a JSON object in UTF-8")
	ErrAmbiguous = errors.New("two parsers could read it differently")
	ErrList      = errors.New("it is a list")
)

// Object is a JSON object in the order of its members.
type Object []Member

// Member is one member of an object.
type Member struct {
	Name    string
	Value   jsontext.Value
	Members Object // of a value that is an object, down to the level that the caller asked for
}

// Get returns no value if the object does not have the member.
func (o Object) Get(name string) Member {
	for _, m := range o {
		if m.Name == name {
			return m
		}
	}
	return Member{}
}

// With returns the object's text with another value for a member that it has.
func (o Object) With(name string, value jsontext.Value) jsontext.Value {
	text := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			text = append(text, ',')
		}
		text, _ = jsontext.AppendQuote(text, m.Name) // cannot fail: the name was read
		if text = append(text, ':'); m.Name == name {
			m.Value = value
		}
		text = append(text, m.Value...)
	}
	return append(text, '}')
}

// OtherCase returns the first member that differs from one of names only in case, and that name.
func (o Object) OtherCase(names ...string) (has, meant string, found bool) {
	for _, m := range o {
		for _, name := range names {
			if m.Name != name && strings.EqualFold(m.Name, name) {
				return m.Name, name, true
			}
		}
	}
	return "", "", false
}

// Text returns the value of a member that is a text.
func (m Member) Text() (string, bool) {
	if m.Value.Kind() != '"' {
		return "", false
	}
	raw, err := jsontext.AppendUnquote(nil, m.Value)
	return string(raw), err == nil
}

// Strict reads a client's text, which must be one object, and keeps members down to the level keep. It refuses
// duplicate names, names that differ only in case, and text that is not UTF-8.
func Strict(text []byte, keep int) (Object, error) { return read(text, true, keep) }

// Lenient reads a server's text like [Strict], but allows names that differ only in case: the mediator uses nothing of
// an answer that it does not understand.
func Lenient(text []byte, keep int) (Object, error) { return read(text, false, keep) }

type reader struct {
	text   []byte
	dec    *jsontext.Decoder
	strict bool
}

var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

func read(text []byte, strict bool, keep int) (Object, error) {
	most := maxAnswerDepth
	if strict {
		most = MaxDepth
	}
	if exceeds(text, most) {
		return nil, fmt.Errorf("%w: it has more than %d names and values or %d levels, or a number of "+
			"more than %d digits", ErrMalformed, MaxItems, most, maxDigits)
	}
	r := reader{text: text, dec: decoders.Get().(*jsontext.Decoder), strict: strict}
	defer decoders.Put(r.dec)
	r.dec.Reset(bytes.NewBuffer(text))
	defer r.dec.Reset(http.NoBody) // so that the pool keeps no text
	switch r.dec.PeekKind() {
	case '{':
	case '[':
		return nil, ErrList
	default:
		return nil, ErrMalformed
	}
	o, err := r.object(keep)
	if err != nil {
		return nil, err
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the object", ErrMalformed)
	}
	return o, nil
}

// Exceeds reports whether a server's text exceeds a bound, so that some clients may not read it. It allocates nothing.
func Exceeds(text []byte) bool { return exceeds(text, maxAnswerDepth) }

func exceeds(text []byte, mostDepth int) bool {
	items, depth, digits, quoted := 1, 0, 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c >= '0' && c <= '9':
			if digits++; digits > maxDigits {
				return true
			}
			continue
		case c == ',' || c == ':':
			items++
		case c == '{' || c == '[':
			items++
			depth++
		case c == '}' || c == ']':
			depth--
		}
		digits = 0
		if items > MaxItems || depth > mostDepth {
			return true
		}
	}
	return false
}

func (r *reader) object(keep int) (out Object, err error) {
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, broken(err)
	}
	var names map[string]bool // folded
	if keep > 0 {
		out = Object{}
	}
	for r.dec.PeekKind() != '}' {
		token, err := r.dec.ReadToken()
		if err != nil {
			return nil, broken(err)
		}
		name := token.String()
		if r.strict {
			if strings.Contains(name, "\x00") || name == "__proto__" {
				return nil, fmt.Errorf("%w: a member's name is __proto__, which gives some readers more "+
					"members, or holds the character NUL, where some parsers end it", ErrAmbiguous)
			}
			folded := Fold(name)
			if names[folded] {
				return nil, fmt.Errorf("%w: it has two members %.60q that differ only in case", ErrAmbiguous, name)
			}
			if names == nil {
				names = make(map[string]bool)
			}
			names[folded] = true
		}
		m := Member{Name: name}
		from := r.dec.InputOffset()
		if m.Members, err = r.value(keep - 1); err != nil {
			return nil, err
		}
		if keep > 0 {
			m.Value = jsontext.Value(bytes.TrimLeft(r.text[from:r.dec.InputOffset()], ": \t\r\n"))
			if len(out) == 0 {
				out = make(Object, 0, 6)
			}
			out = append(out, m)
		}
	}
	_, err = r.dec.ReadToken()
	return out, err
}

func (r *reader) value(keep int) (Object, error) {
	switch kind := r.dec.PeekKind(); {
	case kind == '{' && (r.strict || keep > 0):
		return r.object(keep)
	case kind == '[' && r.strict:
		return nil, r.list()
	}
	if err := r.dec.SkipValue(); err != nil {
		return nil, broken(err)
	}
	return nil, nil
}

func (r *reader) list() error {
	if _, err := r.dec.ReadToken(); err != nil {
		return broken(err)
	}
	for r.dec.PeekKind() != ']' {
		if _, err := r.value(0); err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

// broken does not quote the text.
func broken(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return fmt.Errorf("%w: it has a member twice", ErrAmbiguous)
	}
	return ErrMalformed
}

// Fold returns the same text for all texts that differ only in case, by Unicode's simple folding.
func Fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return unicode.ToLower(r)
		}
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		if least < utf8.RuneSelf { // the Kelvin sign is a k, and a long s an s
			return unicode.ToLower(least)
		}
		return least
	}, s)
}

// IsUnset reports whether a value says no more than an absent member: null, false or an empty list.
func IsUnset(v jsontext.Value) bool {
	switch v.Kind() {
	case 'n', 'f':
		return true
	case '[':
		var list []jsontext.Value
		return json2.Unmarshal(v, &list) == nil && len(list) == 0
	}
	return false
}
