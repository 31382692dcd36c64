package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/internal/refusal"
)

// maxDepth bounds how deep a message is nested.
const maxDepth = 64

// object is a JSON object in the order of its members.
type object []member

// member is one member of an object.
type member struct {
	name    string
	value   jsontext.Value
	members object // of a value that is an object, as deep as was asked for
}

// get returns a member; its value is nil if the object does not have it.
func (o object) get(name string) member {
	for _, m := range o {
		if m.name == name {
			return m
		}
	}
	return member{}
}

// text returns a value that is a text.
func (m member) text() (string, bool) {
	if m.value.Kind() != '"' {
		return "", false
	}
	raw, err := jsontext.AppendUnquote(nil, m.value)
	return string(raw), err == nil
}

// reader reads one JSON text. Names that come twice and text that is not UTF-8 it refuses everywhere. A strict reader also refuses
// names that differ only in case: to some parsers they are the same. Servers' answers are not read strictly: what is not understood
// of them is not used.
type reader struct {
	text   []byte
	dec    *jsontext.Decoder
	strict bool
}

var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// readObject reads a text that is one object, with the members of its members down to the level keep.
func readObject(text []byte, strict bool, keep int) (object, error) {
	r := reader{text: text, dec: decoders.Get().(*jsontext.Decoder), strict: strict}
	defer decoders.Put(r.dec)
	r.dec.Reset(bytes.NewBuffer(text))
	defer r.dec.Reset(http.NoBody) // which keeps no text in the pool
	switch r.dec.PeekKind() {
	case '{':
	case '[':
		return nil, refusal.New("mcp_batch_refused", "the body is a batch of messages; each message goes in a request of its own")
	default:
		return nil, malformed("the body is not a JSON object")
	}
	o, err := r.object(keep, 1)
	if err != nil {
		return nil, err
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, malformed("something follows the message")
	}
	return o, nil
}

// object reads an object. Its members are kept if keep is more than 0.
func (r *reader) object(keep, depth int) (out object, err error) {
	if depth > maxDepth {
		return nil, malformed("the message is nested deeper than %d levels", maxDepth)
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, broken(err)
	}
	var names folded
	if keep > 0 {
		out = make(object, 0, 6)
	}
	for r.dec.PeekKind() != '}' {
		token, err := r.dec.ReadToken()
		if err != nil {
			return nil, broken(err)
		}
		name := token.String()
		if r.strict && names.add(name) {
			return nil, refusal.New("mcp_message_ambiguous", "the message has the member %.60q beside one that differs only in case", name)
		}
		m := member{name: name}
		from := r.dec.InputOffset()
		if m.members, err = r.value(keep-1, depth+1); err != nil {
			return nil, err
		}
		if keep > 0 {
			m.value = jsontext.Value(bytes.TrimLeft(r.text[from:r.dec.InputOffset()], ": \t\r\n"))
			out = append(out, m)
		}
	}
	_, err = r.dec.ReadToken()
	return out, err
}

// value reads a value, and returns the members of an object.
func (r *reader) value(keep, depth int) (object, error) {
	switch kind := r.dec.PeekKind(); {
	case kind == '{' && (r.strict || keep > 0):
		return r.object(keep, depth)
	case kind == '[' && r.strict:
		return nil, r.list(depth)
	}
	if err := r.dec.SkipValue(); err != nil {
		return nil, broken(err)
	}
	return nil, nil
}

func (r *reader) list(depth int) error {
	if depth > maxDepth {
		return malformed("the message is nested deeper than %d levels", maxDepth)
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return broken(err)
	}
	for r.dec.PeekKind() != ']' {
		if _, err := r.value(0, depth+1); err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

func malformed(format string, args ...any) error {
	return refusal.New("mcp_message_malformed", format, args...)
}

// broken says why a text is not JSON that is read in one way. It repeats nothing of the text.
func broken(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return refusal.New("mcp_message_ambiguous", "the message has a member twice")
	}
	return malformed("the body is not JSON in UTF-8")
}

// folded are the names of one object, without regard to case.
type folded struct {
	few  [fewNames]foldable // the first ones
	n    int                // how many there are
	many map[string]bool    // all of them, once they are more
}

// fewNames is how many names are compared one by one.
const fewNames = 8

// add adds a name and reports whether another one differs from it only in case.
func (f *folded) add(name string) bool {
	if f.n < fewNames {
		added := toFold(name)
		for _, other := range f.few[:f.n] {
			if added.same(other) {
				return true
			}
		}
		f.few[f.n] = added
		f.n++
		return false
	}
	if f.many == nil {
		f.many = make(map[string]bool, 4*fewNames)
		for _, other := range f.few {
			f.many[fold(other.name)] = true
		}
	}
	key := fold(name)
	if f.many[key] {
		return true
	}
	f.many[key] = true
	return false
}

// foldable is a name that is compared without regard to case.
type foldable struct {
	name  string
	ascii bool // no character outside of ASCII, so that what differs in length differs
}

func toFold(name string) foldable { return foldable{name, isASCII(name)} }

// same reports whether two names differ at most in case.
func (f foldable) same(o foldable) bool {
	return (len(f.name) == len(o.name) || !f.ascii || !o.ascii) && strings.EqualFold(f.name, o.name)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// fold returns one spelling of all texts that differ only in case: of each character the least that Unicode takes for the same.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, s)
}

// quote returns a text as JSON.
func quote(s string) json.RawMessage {
	raw, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return json.RawMessage(raw)
}
