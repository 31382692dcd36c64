package strictjson

import (
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// shape is what a Go type accepts, pointers followed. A nil shape accepts any value and keeps nothing.
type shape struct {
	name    string // of the accepted values in an error; empty if encoding/json reads the value
	t       reflect.Type
	members map[string]field // of a struct
	element *shape           // of a map or a list
	length  int              // of an array
}

type field struct {
	index []int
	shape *shape
}

var shapes sync.Map // of *shape, by reflect.Type

func shapeOf(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	s := newShape(t, make(map[reflect.Type]*shape))
	shapes.Store(t, s)
	return s
}

// target follows pointers to the variable that takes a value which begins with c. null fits the pointer itself.
func target(into reflect.Value, c byte) reflect.Value {
	for into.Kind() == reflect.Pointer && c != 'n' {
		if into.IsNil() {
			into.Set(reflect.New(into.Type().Elem()))
		}
		into = into.Elem()
	}
	return into
}

// made holds the shapes that t's rests on, which may rest on it.
func newShape(t reflect.Type, made map[reflect.Type]*shape) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s := made[t]; s != nil {
		return s
	}
	s := &shape{t: t}
	made[t] = s
	p := reflect.PointerTo(t)
	if p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		s.name, s.members = "an object", make(map[string]field)
		s.addMembers(t, nil, made)
	case reflect.Map:
		s.name, s.element = "an object", newShape(t.Elem(), made)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // otherwise base64
			s.name, s.element = "a list", newShape(t.Elem(), made)
		}
	case reflect.Array: // encoding/json takes a list of any length for one
		s.name, s.element, s.length = "a list", newShape(t.Elem(), made), t.Len()
	case reflect.String:
		s.name = "a text"
	case reflect.Bool:
		s.name = "true or false"
	case reflect.Int, reflect.Int64:
		s.name = "a whole number"
	}
	return s
}

// addMembers adds the members of a struct, and of those embedded without a name.
func (s *shape) addMembers(t reflect.Type, at []int, made map[reflect.Type]*shape) {
	for i := range t.NumField() {
		f, index := t.Field(i), append(slices.Clip(at), i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			s.addMembers(f.Type, index, made)
		case f.IsExported() && name != "-":
			s.members[cmp.Or(name, f.Name)] = field{index, newShape(f.Type, made)}
		}
	}
}

// accepts lets null pass, which fits every type, and what begins no value, which value refuses.
func (s *shape) accepts(c byte) bool {
	if s == nil || s.name == "" || !begins(c) {
		return true
	}
	switch s.name {
	case "an object":
		return c == '{'
	case "a list":
		return c == '['
	case "a text":
		return c == '"'
	case "true or false":
		return c == 't' || c == 'f'
	case "a whole number":
		return c == '-' || '0' <= c && c <= '9'
	}
	return true
}

func begins(c byte) bool {
	return c == '{' || c == '[' || c == '"' || c == 't' || c == 'f' || c == '-' || '0' <= c && c <= '9'
}

// set reports false if the type does not hold the value, which is no text.
func (s *shape) set(into reflect.Value, raw []byte) bool {
	switch {
	case s == nil:
	case s.name == "":
		return json.Unmarshal(raw, into.Addr().Interface()) == nil
	case raw[0] == 'n':
		if k := into.Kind(); k == reflect.Pointer || k == reflect.Map || k == reflect.Slice {
			into.SetZero()
		}
	case s.name == "true or false":
		into.SetBool(raw[0] == 't')
	case s.name == "a whole number":
		n, err := strconv.ParseInt(string(raw), 10, s.t.Bits())
		into.SetInt(n)
		return err == nil
	}
	return true
}

func (s *shape) malformed() string {
	if s.name == "" {
		return "is malformed"
	}
	return "must be " + s.name
}

func (s *shape) empty(into reflect.Value) {
	switch {
	case s == nil || s.element == nil:
	case into.Kind() == reflect.Map && into.IsNil():
		into.Set(reflect.MakeMap(s.t))
	case into.Kind() == reflect.Slice && into.IsNil():
		into.Set(reflect.MakeSlice(s.t, 0, 0))
	case into.Kind() == reflect.Slice:
		into.SetLen(0)
	}
}

func (s *shape) member(into reflect.Value, name []byte) (want *shape, member reflect.Value, known bool) {
	switch {
	case s == nil || s.name == "":
		return nil, reflect.Value{}, true
	case s.element != nil:
		return s.element, reflect.New(s.t.Elem()).Elem(), true
	}
	f, known := s.members[string(name)]
	if !known {
		return nil, reflect.Value{}, false
	}
	return f.shape, into.FieldByIndex(f.index), true
}

func (s *shape) keep(into reflect.Value, name []byte, member reflect.Value) {
	if s != nil && s.element != nil {
		into.SetMapIndex(reflect.ValueOf(string(name)).Convert(s.t.Key()), member)
	}
}

func (s *shape) of() *shape {
	if s == nil {
		return nil
	}
	return s.element
}

func (s *shape) item(into reflect.Value, n int) reflect.Value {
	switch {
	case s == nil || s.element == nil:
		return reflect.Value{}
	case s.length == 0:
		into.Grow(1)
		into.SetLen(n + 1)
		into.Index(n).SetZero()
	case n >= s.length: // list refuses it
		return reflect.New(s.t.Elem()).Elem()
	}
	return into.Index(n)
}
