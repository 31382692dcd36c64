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

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds on a text.
const (
	MaxDepth = 64      // nesting
	MaxItems = 200_000 // names and values; reading a member takes some forty times the memory of its shortest spelling
)

// Why a text is refused. An error wraps one of them, and says nothing of the text but the name of a member.
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
	Members Object // of a value that is an object, as deep as was asked for
}

// Get returns a member; its value is nil if the object does not have it.
func (o Object) Get(name string) Member {
	for _, m := range o {
		if m.Name == name {
			return m
		}
	}
	return Member{}
}

// OtherCase returns the first member that differs from one of names only in case, and that name: some parsers take the one for the
// other.
func (o Object) OtherCase(names ...string) (has, meant string, found bool) {
	for _, m := range o {
		own := ToFold(m.Name)
		for _, name := range names {
			if m.Name != name && own.Same(ToFold(name)) {
				return m.Name, name, true
			}
		}
	}
	return "", "", false
}

// Text returns a value that is a text.
func (m Member) Text() (string, bool) {
	if m.Value.Kind() != '"' {
		return "", false
	}
	raw, err := jsontext.AppendUnquote(nil, m.Value)
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

// Strict reads a text of a client that is one object, with the members of its members down to the level keep. It refuses names that
// differ only in case: to some parsers they are the same.
func Strict(text []byte, keep int) (Object, error) { return read(text, true, keep) }

// Lenient reads a text of a server as Strict does, but for names that differ only in case.
func Lenient(text []byte, keep int) (Object, error) { return read(text, false, keep) }

func read(text []byte, strict bool, keep int) (Object, error) {
	if TooMany(text) {
		return nil, fmt.Errorf("%w: it has more than %d names and values", ErrMalformed, MaxItems)
	}
	r := reader{text: text, dec: decoders.Get().(*jsontext.Decoder), strict: strict}
	defer decoders.Put(r.dec)
	r.dec.Reset(bytes.NewBuffer(text))
	defer r.dec.Reset(http.NoBody) // which keeps no text in the pool
	switch r.dec.PeekKind() {
	case '{':
	case '[':
		return nil, ErrList
	default:
		return nil, ErrMalformed
	}
	o, err := r.object(keep, 1)
	if err != nil {
		return nil, err
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the object", ErrMalformed)
	}
	return o, nil
}

// TooMany reports whether a JSON text has more than [MaxItems] names and values, counted by what stands between them. It takes no memory.
func TooMany(text []byte) bool {
	if len(text) <= MaxItems {
		return false
	}
	items, quoted := 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ':' || c == '{' || c == '['):
			items++
		}
	}
	return items > MaxItems
}

// object reads an object. Its members are kept if keep is more than 0.
func (r *reader) object(keep, depth int) (out Object, err error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("%w: it is nested deeper than %d levels", ErrMalformed, MaxDepth)
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, broken(err)
	}
	var names folded
	if keep > 0 {
		out = make(Object, 0, 6)
	}
	for r.dec.PeekKind() != '}' {
		token, err := r.dec.ReadToken()
		if err != nil {
			return nil, broken(err)
		}
		name := token.String()
		if r.strict && strings.Contains(name, "\x00") {
			return nil, fmt.Errorf("%w: it has a member whose name holds the character NUL, where some parsers end it", ErrAmbiguous)
		}
		if r.strict && names.add(name) {
			return nil, fmt.Errorf("%w: it has the member %.60q beside one that differs only in case", ErrAmbiguous, name)
		}
		m := Member{Name: name}
		from := r.dec.InputOffset()
		if m.Members, err = r.value(keep-1, depth+1); err != nil {
			return nil, err
		}
		if keep > 0 {
			m.Value = jsontext.Value(bytes.TrimLeft(r.text[from:r.dec.InputOffset()], ": \t\r\n"))
			out = append(out, m)
		}
	}
	_, err = r.dec.ReadToken()
	return out, err
}

// value reads a value, and returns the members of an object.
func (r *reader) value(keep, depth int) (Object, error) {
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
	if depth > MaxDepth {
		return fmt.Errorf("%w: it is nested deeper than %d levels", ErrMalformed, MaxDepth)
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

// broken says why a text is not JSON that is read in one way. It repeats nothing of the text.
func broken(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return fmt.Errorf("%w: it has a member twice", ErrAmbiguous)
	}
	return ErrMalformed
}

// folded are the names of one object, without regard to case.
type folded struct {
	few  [fewNames]Foldable // the first ones
	n    int                // how many there are
	many map[string]bool    // all of them, once they are more
}

// fewNames is how many names are compared one by one.
const fewNames = 8

// add adds a name and reports whether another one differs from it only in case.
func (f *folded) add(name string) bool {
	if f.n < fewNames {
		added := ToFold(name)
		for _, other := range f.few[:f.n] {
			if added.Same(other) {
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
			f.many[Fold(other.name)] = true
		}
	}
	key := Fold(name)
	if f.many[key] {
		return true
	}
	f.many[key] = true
	return false
}

// Foldable is a name that is compared without regard to case.
type Foldable struct {
	name  string
	ascii bool // no character outside of ASCII, so that what differs in length differs
}

// ToFold readies a name to be compared.
func ToFold(name string) Foldable { return Foldable{name, isASCII(name)} }

// Same reports whether two names differ at most in case.
func (f Foldable) Same(o Foldable) bool {
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

// Fold returns one spelling of all texts that differ only in case: of each character the least that Unicode takes for the same.
func Fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, s)
}
