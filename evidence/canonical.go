package evidence

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
)

// encode writes claims as RFC 8785 canonical JSON. Go writes members in field order and an embedded struct's members where it
// is embedded, so the top level is sorted afterwards; nested structs declare their fields in sorted order (a test compares
// every kind with an independent canonicaliser). It refuses the few strings that Go and RFC 8785 escape differently.
func encode(v any) ([]byte, error) {
	w := writers.Get().(*writer)
	defer writers.Put(w)
	w.Reset()
	if err := w.json.Encode(v); err != nil {
		return nil, Refuse("claims_malformed", "the claims cannot be written as JSON: %v", err)
	}
	raw := bytes.TrimSuffix(w.Bytes(), []byte("\n"))
	if bytes.Contains(raw, []byte(`\u`)) {
		for _, escape := range []string{`\u2028`, `\u2029`, `\ufffd`} {
			if bytes.Contains(raw, []byte(escape)) {
				return nil, Refuse("claims_malformed", "a claim holds a line separator or a character that is not valid UTF-8")
			}
		}
	}
	return sortMembers(raw), nil
}

// writer is a buffer with an encoder that writes to it, to be used again.
type writer struct {
	bytes.Buffer
	json *json.Encoder
}

var writers = sync.Pool{New: func() any {
	w := &writer{}
	w.json = json.NewEncoder(w)
	w.json.SetEscapeHTML(false)
	return w
}}

// sortMembers returns a copy of a compact JSON object with its members ordered by name. Names here are ASCII, so byte order is RFC 8785's order.
func sortMembers(raw []byte) []byte {
	if !bytes.HasPrefix(raw, []byte("{")) {
		return bytes.Clone(raw)
	}
	var few [32]property // as many as any claims have
	members, sorted := few[:0], true
	add := func(text []byte) {
		m := property{text, text[:skipString(text, 0)-1]}
		sorted = sorted && (len(members) == 0 || byName(members[len(members)-1], m) < 0)
		members = append(members, m)
	}
	depth, start := 0, 1
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
				add(raw[start:i])
				start = i + 1
			}
		}
		i++
	}
	add(raw[start : len(raw)-1])
	if sorted {
		return bytes.Clone(raw)
	}
	slices.SortFunc(members, byName)
	out := append(make([]byte, 0, len(raw)), '{')
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, m.text...)
	}
	return append(out, '}')
}

// property is one member of an object. Its name is quoted, without the closing quote, so that a name sorts before every longer one.
type property struct{ text, name []byte }

func byName(a, b property) int { return bytes.Compare(a.name, b.name) }
