package strictjson

import (
	"bytes"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// Bounds on posted JSON.
const (
	MaxDepth = 100 // nesting
	// names and values; sorting a member takes some two hundred times the memory of its shortest spelling
	MaxItems = 200_000
)

type reader struct {
	raw   []byte
	text  string // raw, if its texts share one copy; else empty
	at    int    // the next byte
	depth int
	items int

	bounded bool   // refuse over MaxItems and numbers that a double does not hold
	most    int    // if set, refuse more names and values
	write   bool   // append the canonical form to out
	out     []byte // the canonical form so far
	scratch []byte // for sorting members
}

type fault struct {
	at    int    // the byte in the text
	path  string // of the value; empty for the document
	text  string // what is wrong, as a predicate
	shape bool   // the text is JSON, but not what the Go type accepts
}

// bytes; a longer path lacks its beginning
const maxPath = 300

// in puts the fault into a member or an item.
func (f *fault) in(part string) *fault {
	switch {
	case len(f.path) > maxPath:
		return f
	case len(f.path)+len(part) > maxPath:
		part = "…"
	}
	if f.path != "" && f.path[0] != '[' {
		part += "."
	}
	f.path = part + f.path
	return f
}

func (r *reader) fault(at int, format string, args ...any) *fault {
	return &fault{at: at, text: fmt.Sprintf(format, args...)}
}

// document takes any text without a shape, and keeps nothing.
func (r *reader) document(want *shape, into reflect.Value) *fault {
	if err := r.value(want, into); err != nil {
		return err
	}
	if r.space(); r.at < len(r.raw) {
		return r.fault(r.at, "has text after its value")
	}
	return nil
}

func (r *reader) space() {
	for r.at < len(r.raw) {
		switch r.raw[r.at] {
		case ' ', '\t', '\r', '\n':
			r.at++
		default:
			return
		}
	}
}

// next returns the next byte that is no white space, or 0.
func (r *reader) next() byte {
	if r.space(); r.at < len(r.raw) {
		return r.raw[r.at]
	}
	return 0
}

func (r *reader) take(c byte) bool {
	if r.next() != c || r.at == len(r.raw) {
		return false
	}
	r.at++
	return true
}

func (r *reader) missing(what string) *fault {
	if r.at >= len(r.raw) {
		return r.fault(r.at, "ends where %s is missing", what)
	}
	_, size := utf8.DecodeRune(r.raw[r.at:])
	return r.fault(r.at, "lacks %s before %q", what, r.raw[r.at:r.at+size])
}

func (r *reader) count() *fault {
	r.items++
	switch {
	case r.bounded && r.items > MaxItems:
		return r.fault(r.at,
			"has more than %d names and values; send less at once, or configure the action with content: raw", MaxItems)
	case r.most > 0 && r.items > r.most:
		return r.fault(r.at, "has more than %d names and values", r.most)
	}
	return nil
}

func (r *reader) value(want *shape, into reflect.Value) *fault {
	c := r.next()
	if err := r.count(); err != nil {
		return err
	}
	start := r.at
	into = target(into, c)
	if !want.accepts(c) {
		return &fault{at: start, text: "must be " + want.name, shape: true}
	}
	var said []byte
	var err *fault
	switch {
	case c == '{' || c == '[':
		if r.depth++; r.depth > MaxDepth {
			return r.fault(r.at, "is nested deeper than %d levels", MaxDepth)
		}
		if c == '{' {
			err = r.object(want, into)
		} else {
			err = r.list(want, into)
		}
		r.depth--
	case c == '"':
		if said, err = r.string(); err == nil && r.write {
			r.out = appendQuoted(r.out, said, r.raw[start:r.at])
		}
	case c == '-' || '0' <= c && c <= '9':
		err = r.number()
	case c == 't':
		err = r.word("true")
	case c == 'f':
		err = r.word("false")
	case c == 'n':
		err = r.word("null")
	default:
		err = r.missing("a value")
	}
	switch {
	case err != nil:
	case want != nil && want.name == "a text" && c == '"':
		into.SetString(r.keep(said, start))
	case !want.set(into, r.raw[start:r.at]):
		err = &fault{at: start, text: want.malformed(), shape: true}
	}
	return err
}

// keep copies what a string says. Without escapes, which shorten it, that is a part of r.text.
func (r *reader) keep(said []byte, start int) string {
	if r.text != "" && len(said) == r.at-start-2 {
		return r.text[start+1 : r.at-1]
	}
	return string(said)
}

func (r *reader) word(word string) *fault {
	if !bytes.HasPrefix(r.raw[r.at:], []byte(word)) {
		return r.missing("a value")
	}
	r.at += len(word)
	if r.write {
		r.out = append(r.out, word...)
	}
	return nil
}

type member struct {
	name       []byte
	at         int // where its name begins in the text
	start, end int // where its canonical form is in out
}

func (r *reader) object(want *shape, into reflect.Value) *fault {
	r.at++
	begin := r.emit('{')
	want.empty(into)
	var few [8]member
	members, sorted := few[:0], true
	for r.next() != '}' || len(members) > 0 {
		if r.next() != '"' {
			return r.missing("a name")
		}
		m := member{at: r.at, start: len(r.out)}
		if err := r.count(); err != nil {
			return err
		}
		name, err := r.string()
		if err != nil {
			return err
		}
		if r.write {
			r.out = appendQuoted(r.out, name, r.raw[m.at:r.at])
			r.emit(':')
		}
		if !r.take(':') {
			return r.missing("a colon")
		}
		m.name = name
		kind, child, known := want.member(into, name)
		if !known {
			return (&fault{at: m.at, text: "is not known", shape: true}).in(pathOf(name))
		}
		if err := r.value(kind, child); err != nil {
			return err.in(pathOf(name))
		}
		want.keep(into, name, child)
		m.end = len(r.out)
		sorted = sorted && (len(members) == 0 || compare(members[len(members)-1].name, name) < 0)
		members = append(members, m)
		if !r.take(',') {
			break
		}
		r.emit(',')
	}
	if !r.take('}') {
		return r.missing("a comma or a closing brace")
	}
	if !sorted {
		if twice := r.sort(members, begin); twice != nil {
			return r.fault(twice.at, "comes twice").in(pathOf(twice.name))
		}
	}
	r.emit('}')
	return nil
}

func (r *reader) list(want *shape, into reflect.Value) *fault {
	start := r.at
	r.at++
	r.emit('[')
	want.empty(into)
	n := 0
	for r.next() != ']' || n > 0 {
		if err := r.value(want.of(), want.item(into, n)); err != nil {
			return err.in(fmt.Sprintf("[%d]", n))
		}
		n++
		if !r.take(',') {
			break
		}
		r.emit(',')
	}
	if !r.take(']') {
		return r.missing("a comma or a closing bracket")
	}
	if want != nil && want.length > 0 && n != want.length {
		return &fault{at: start, text: fmt.Sprintf("must be a list of %d", want.length), shape: true}
	}
	r.emit(']')
	return nil
}

// position counts as an editor does.
func position(raw []byte, at int) string {
	before := raw[:min(at, len(raw))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return fmt.Sprintf("line %d, column %d", bytes.Count(before, []byte{'\n'})+1, utf8.RuneCount(before[start:])+1)
}

// pathOf quotes a name that would not read well, and cuts a long one.
func pathOf(raw []byte) string {
	name := string(raw)
	for _, c := range raw {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			name = fmt.Sprintf("%.80q", name)
			break
		}
	}
	switch {
	case name == "":
		return `""`
	case len(name) > 100:
		return name[:80] + "…"
	}
	return name
}
