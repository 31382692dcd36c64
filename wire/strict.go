package wire

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// decode reads one JSON document into what v points to. Members that v does not name exactly, members that come twice, and text after
// the document are refused. What v keeps as raw JSON is the other side's own, and only has to be JSON.
func decode(raw []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if err := check(dec, reflect.TypeOf(v)); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the document")
	}
	return json.Unmarshal(raw, v)
}

// check reads the next value and holds its members against t.
func check(dec *json.Decoder, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var open json.Delim
	switch {
	case decodesItself(t):
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map:
		open = '{'
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8: // bytes are a string
		open = '['
	}
	if open == 0 {
		return dec.Decode(new(json.RawMessage))
	}
	switch token, err := dec.Token(); {
	case err != nil:
		return err
	case token == nil:
		return nil
	case token != open:
		return fmt.Errorf("there is %v in place of %v", token, open)
	}
	if err := members(dec, t); err != nil {
		return err
	}
	_, err := dec.Token()
	return err
}

// members reads what is in an object or an array.
func members(dec *json.Decoder, t reflect.Type) error {
	seen := make(map[string]bool)
	for dec.More() {
		if t.Kind() == reflect.Slice {
			if err := check(dec, t.Elem()); err != nil {
				return err
			}
			continue
		}
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		member, known := memberType(t, name)
		if !known || seen[name] {
			return fmt.Errorf("the member %.80q is unknown or comes twice", name)
		}
		seen[name] = true
		if err := check(dec, member); err != nil {
			return err
		}
	}
	return nil
}

// decodesItself reports whether encoding/json leaves a value of type t to t.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// memberType returns the type of the member of t, a struct or a map, that bears a name.
func memberType(t reflect.Type, name string) (reflect.Type, bool) {
	if t.Kind() == reflect.Map {
		return t.Elem(), true
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			if member, ok := memberType(f.Type, name); ok {
				return member, true
			}
		case tag == name && f.IsExported():
			return f.Type, true
		}
	}
	return nil, false
}
