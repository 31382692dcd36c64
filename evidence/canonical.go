package evidence

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// canonical calls use with claims as RFC 8785 canonical JSON; what use is given is written over afterwards. claims points to them, and s is
// the spelling of their type. It refuses what is not UTF-8, and the two line separators, which JSON libraries escape differently.
func canonical(s *spelling, claims any, use func([]byte)) (err error) {
	borrow(func(b []byte) []byte {
		if b, err = s.append(b, reflect.ValueOf(claims).Elem()); err == nil {
			use(b)
		}
		return b
	})
	return err
}

// readCanonical reads text into what claims points to, which is zero. It is false for all but what canonical writes of these claims, byte for
// byte; and also where a text in it has escapes or is not ASCII, or a list or pointer is null. Of these a reader has to judge that takes its
// time, and the claims are good for nothing.
func readCanonical(text string, s *spelling, claims any) bool {
	rest, ok := s.read(text, reflect.ValueOf(claims).Elem())
	return ok && rest == ""
}

// spelling is how the values of one type are written in canonical JSON. Unlike encoding/json it has the members of an embedded struct in
// their order among the others.
type spelling struct {
	kind    reflect.Kind
	members []property // of a struct, in RFC 8785's order
	element *spelling  // of a slice, or of what a pointer points to
}

// property is one member of an object.
type property struct {
	name     string // as it is written, in quotes and with its colon
	field    []int  // of the struct, or of one that is embedded there
	optional bool   // left out where it is empty
	value    *spelling
}

// spell returns how t is written. It panics for a type that no claim has.
func spell(t reflect.Type) *spelling {
	s := &spelling{kind: t.Kind()}
	switch s.kind {
	case reflect.String, reflect.Bool, reflect.Int64:
	case reflect.Slice, reflect.Pointer:
		s.element = spell(t.Elem())
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if f.Anonymous { // its fields are visible too
				continue
			}
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			s.members = append(s.members, property{strconv.Quote(name) + ":", f.Index, options == "omitempty", spell(f.Type)})
		}
		// Names here are ASCII, so the order of their bytes is RFC 8785's.
		slices.SortFunc(s.members, func(a, b property) int { return strings.Compare(a.name, b.name) })
	default:
		panic("evidence: no claim is a " + t.String())
	}
	return s
}

// append appends v.
func (s *spelling) append(b []byte, v reflect.Value) ([]byte, error) {
	switch s.kind {
	case reflect.String:
		return appendText(b, v.String())
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Struct:
		return s.appendObject(b, v)
	}
	switch {
	case v.IsNil():
		return append(b, "null"...), nil
	case s.kind == reflect.Pointer:
		return s.element.append(b, v.Elem())
	}
	return s.appendList(b, v)
}

func (s *spelling) appendObject(b []byte, v reflect.Value) (_ []byte, err error) {
	open := byte('{')
	for i := range s.members {
		m := &s.members[i]
		field := v.FieldByIndex(m.field)
		if m.optional && isEmpty(field) {
			continue
		}
		b = append(append(b, open), m.name...)
		if b, err = m.value.append(b, field); err != nil {
			return nil, err
		}
		open = ','
	}
	if open == '{' {
		b = append(b, '{')
	}
	return append(b, '}'), nil
}

func (s *spelling) appendList(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = s.element.append(b, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func isEmpty(v reflect.Value) bool {
	return v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

func appendText(b []byte, text string) ([]byte, error) {
	if isPlain(text) {
		return append(append(append(b, '"'), text...), '"'), nil
	}
	b, err := jsontext.AppendQuote(b, text)
	if err != nil || strings.ContainsAny(text, "\u2028\u2029") {
		return nil, Refuse("claims_malformed", "a claim holds a line separator or a character that is not valid UTF-8")
	}
	return b, nil
}

// isPlain reports whether text stands in JSON as it is: printable ASCII, and nothing to be escaped.
func isPlain(text string) bool {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// read reads the value at the beginning of text into v, and returns the rest: see [readCanonical].
func (s *spelling) read(text string, v reflect.Value) (rest string, ok bool) {
	switch s.kind {
	case reflect.String:
		return readText(text, v)
	case reflect.Bool:
		if rest, ok = strings.CutPrefix(text, "true"); ok {
			v.SetBool(true)
			return rest, true
		}
		return strings.CutPrefix(text, "false")
	case reflect.Int64:
		return readNumber(text, v)
	case reflect.Struct:
		return s.readObject(text, v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return s.element.read(text, v.Elem())
	}
	return s.readList(text, v)
}

func (s *spelling) readObject(text string, v reflect.Value) (rest string, ok bool) {
	open := "{"
	for i := range s.members {
		m := &s.members[i]
		rest, opened := strings.CutPrefix(text, open)
		if rest, ok = strings.CutPrefix(rest, m.name); !ok || !opened {
			if m.optional {
				continue
			}
			return "", false
		}
		field := v.FieldByIndex(m.field)
		if text, ok = m.value.read(rest, field); !ok || m.optional && isEmpty(field) {
			return "", false
		}
		open = ","
	}
	if open == "{" {
		return strings.CutPrefix(text, "{}")
	}
	return strings.CutPrefix(text, "}")
}

func (s *spelling) readList(text string, v reflect.Value) (rest string, ok bool) {
	if text, ok = strings.CutPrefix(text, "["); !ok {
		return "", false
	}
	if rest, ok = strings.CutPrefix(text, "]"); ok {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		return rest, true
	}
	for i, more := 0, true; more; i++ {
		v.Grow(1)
		v.SetLen(i + 1)
		if text, ok = s.element.read(text, v.Index(i)); !ok {
			return "", false
		}
		text, more = strings.CutPrefix(text, ",")
	}
	return strings.CutPrefix(text, "]")
}

func readText(text string, v reflect.Value) (rest string, ok bool) {
	text, ok = strings.CutPrefix(text, `"`)
	text, rest, ended := strings.Cut(text, `"`)
	if !ok || !ended || !isPlain(text) {
		return "", false
	}
	v.SetString(text)
	return rest, true
}

func readNumber(text string, v reflect.Value) (rest string, ok bool) {
	rest = strings.TrimLeft(text, "-0123456789")
	digits := text[:len(text)-len(rest)]
	n, err := strconv.ParseInt(digits, 10, 64)
	v.SetInt(n)
	padded := digits != "0" && strings.HasPrefix(strings.TrimPrefix(digits, "-"), "0")
	return rest, err == nil && !padded
}
