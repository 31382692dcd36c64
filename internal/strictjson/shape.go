package strictjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// shape is what a Go type accepts. A nil shape accepts any value.
type shape struct {
	name    string // of the accepted values in an error; empty if the type reads itself
	t       reflect.Type
	members map[string]reflect.Type // of a struct
	element reflect.Type            // of a map or a list
	length  int                     // of an array
}

var shapes sync.Map // of *shape, by reflect.Type

// shapeOf returns the shape of a type.
func shapeOf(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	s := newShape(t)
	shapes.Store(t, s)
	return s
}

func newShape(t reflect.Type) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := &shape{t: t}
	p := reflect.PointerTo(t)
	if p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		s.name, s.members = "an object", make(map[string]reflect.Type)
		s.addMembers(t)
	case reflect.Map:
		s.name, s.element = "an object", t.Elem()
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // otherwise base64
			s.name, s.element = "a list", t.Elem()
		}
	case reflect.Array: // encoding/json takes a list of any length for one
		s.name, s.element, s.length = "a list", t.Elem(), t.Len()
	case reflect.String:
		s.name = "a text"
	case reflect.Bool:
		s.name = "true or false"
	case reflect.Int, reflect.Int64:
		s.name = "a whole number"
	}
	return s
}

// addMembers adds the members of a struct, and of those that are embedded without a name of their own.
func (s *shape) addMembers(t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			s.addMembers(f.Type)
		case f.IsExported() && name != "-":
			if name == "" {
				name = f.Name
			}
			s.members[name] = f.Type
		}
	}
}

// accepts reports whether a value that begins with c can be of the type. null fits every type; value refuses what
// begins no value.
func (s *shape) accepts(c byte) bool {
	switch s.name {
	case "an object":
		return c == '{' || !begins(c)
	case "a list":
		return c == '[' || !begins(c)
	case "a text":
		return c == '"' || !begins(c)
	case "true or false":
		return c == 't' || c == 'f' || !begins(c)
	case "a whole number":
		return c == '-' || '0' <= c && c <= '9' || !begins(c)
	}
	return true
}

// begins reports whether c begins a value that is not null.
func begins(c byte) bool {
	return c == '{' || c == '[' || c == '"' || c == 't' || c == 'f' || c == '-' || '0' <= c && c <= '9'
}

// decodes reports whether a value, which accepts has let pass, is one of the type.
func (s *shape) decodes(raw []byte) bool {
	switch {
	case string(raw) == "null":
		return true
	case s.name == "a whole number":
		_, err := strconv.ParseInt(string(raw), 10, s.t.Bits())
		return err == nil
	case s.name == "": // any, or the type reads itself
		return s.t.Kind() == reflect.Interface || json.Unmarshal(raw, reflect.New(s.t).Interface()) == nil
	}
	return true
}

func (s *shape) malformed() string {
	if s.name == "" {
		return "is malformed"
	}
	return "must be " + s.name
}

// member returns the shape of a member, and whether there may be one with this name.
func (s *shape) member(name []byte) (member *shape, known bool) {
	switch {
	case s == nil || s.name == "":
		return nil, true
	case s.element != nil:
		return shapeOf(s.element), true
	}
	t, known := s.members[string(name)]
	if !known {
		return nil, false
	}
	return shapeOf(t), true
}

// item returns the shape of the items of a list.
func (s *shape) item() *shape {
	if s == nil || s.name == "" {
		return nil
	}
	return shapeOf(s.element)
}
