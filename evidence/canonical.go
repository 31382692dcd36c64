package evidence

import (
	"bytes"
	"encoding/json"
	"sync"
)

// canonical calls use with claims as RFC 8785 canonical JSON; what use is given is written over afterwards. It refuses the few strings
// that Go and RFC 8785 escape differently.
func canonical(claims any, use func([]byte)) error {
	w := writers.Get().(*writer)
	defer writers.Put(w)
	w.Reset()
	if err := w.json.Encode(claims); err != nil {
		return Refuse("claims_malformed", "the claims cannot be written as JSON: %v", err)
	}
	raw := bytes.TrimSuffix(w.Bytes(), []byte("\n"))
	if bytes.Contains(raw, []byte(`\u`)) {
		for _, escape := range []string{`\u2028`, `\u2029`, `\ufffd`} {
			if bytes.Contains(raw, []byte(escape)) {
				return Refuse("claims_malformed", "a claim holds a line separator or a character that is not valid UTF-8")
			}
		}
	}
	use(w.ordered(raw))
	return nil
}

// writer is a buffer with an encoder that writes to it, to be used again.
type writer struct {
	bytes.Buffer
	json    *json.Encoder
	members []property
	merged  []byte
}

var writers = sync.Pool{New: func() any {
	w := &writer{}
	w.json = json.NewEncoder(w)
	w.json.SetEscapeHTML(false)
	return w
}}

// ordered returns a compact JSON object with its members by name. Go writes members in field order, and an embedded struct's where it is
// embedded: first the registered claims and those about the key, then the kind's own. Either are declared in order, as the fields of nested
// structs are (a test compares every kind with an independent canonicaliser), so the two only have to be merged. Names here are ASCII, so
// byte order is RFC 8785's order.
func (w *writer) ordered(raw []byte) []byte {
	if !bytes.HasPrefix(raw, []byte("{")) {
		return raw
	}
	w.members = appendMembers(w.members[:0], raw)
	own := 1
	for own < len(w.members) && w.members[own-1].before(w.members[own]) {
		own++
	}
	if own >= len(w.members) {
		return raw
	}
	w.merged = w.merged[:0]
	for a, b := w.members[:own], w.members[own:]; len(a)+len(b) > 0; {
		next := &a
		if len(a) == 0 || len(b) > 0 && b[0].before(a[0]) {
			next = &b
		}
		w.merged = append(append(w.merged, ','), (*next)[0].text...)
		*next = (*next)[1:]
	}
	w.merged[0] = '{'
	w.merged = append(w.merged, '}')
	return w.merged
}

// property is one member of an object. Its name is quoted, without the closing quote, so that a name sorts before every longer one.
type property struct{ text, name []byte }

func (p property) before(o property) bool { return bytes.Compare(p.name, o.name) < 0 }

// appendMembers takes a compact JSON object apart.
func appendMembers(to []property, raw []byte) []property {
	depth, start := 0, 1
	add := func(end int) {
		text := raw[start:end]
		to = append(to, property{text, text[:skipString(text, 0)-1]})
		start = end + 1
	}
	for i := 1; i < len(raw)-1; {
		switch raw[i] {
		case '"':
			i = skipString(raw, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth == 0 {
				add(i)
			}
		}
		i++
	}
	if start < len(raw)-1 {
		add(len(raw) - 1)
	}
	return to
}
