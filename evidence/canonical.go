package evidence

import (
	"bytes"
	"encoding/json"
	"sort"
)

// encode writes claims as RFC 8785 canonical JSON. Go writes members in field order and an embedded struct's members where it
// is embedded, so the top level is sorted afterwards; nested structs declare their fields in sorted order (a test compares
// every kind with an independent canonicaliser). It refuses the few strings that Go and RFC 8785 escape differently.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, Refuse("claims_malformed", "the claims cannot be written as JSON: %v", err)
	}
	raw := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	for _, escape := range [][]byte{[]byte(`\u2028`), []byte(`\u2029`), []byte(`\ufffd`)} {
		if bytes.Contains(raw, escape) {
			return nil, Refuse("claims_malformed", "a claim holds a line separator or a character that is not valid UTF-8")
		}
	}
	return sortMembers(raw), nil
}

// sortMembers orders the members of a compact JSON object by name. Names here are ASCII, so byte order is RFC 8785's order.
func sortMembers(raw []byte) []byte {
	if !bytes.HasPrefix(raw, []byte("{")) {
		return raw
	}
	var members [][]byte
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
				members = append(members, raw[start:i])
				start = i + 1
			}
		}
		i++
	}
	members = append(members, raw[start:len(raw)-1])
	sort.Slice(members, func(i, j int) bool { return bytes.Compare(name(members[i]), name(members[j])) < 0 })
	out := make([]byte, 0, len(raw))
	out = append(out, '{')
	out = append(out, bytes.Join(members, []byte(","))...)
	return append(out, '}')
}

// name returns the quoted name of a member without its closing quote, so that a name sorts before every longer one.
func name(member []byte) []byte { return member[:skipString(member, 0)-1] }
