package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// ParseStrict decodes one JSON text into what v points to, refusing unknown members, duplicate members, members in another case,
// text after the value, and what [Canonical] refuses.
func ParseStrict(raw []byte, v any) error {
	if _, err := Canonical(raw); err != nil { // finds duplicate members, which encoding/json would let through
		return err
	}
	if err := decodeJSON(raw, v); err != nil {
		return err
	}
	var loose any
	if err := json.Unmarshal(raw, &loose); err != nil {
		return err
	}
	return checkNames(loose, reflect.TypeOf(v))
}

func decodeJSON(raw []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the JSON value")
	}
	return nil
}

// checkNames demands that members of objects bear exactly the names of the fields that they were decoded into: encoding/json takes
// them in any case, and then "grant" and "Grant" are one member of which the last wins.
func checkNames(value any, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := value.(type) {
	case map[string]any:
		if t.Kind() != reflect.Struct { // a map, raw JSON, or a type that decodes itself
			return nil
		}
		names := memberTypes(t)
		for name, member := range v {
			field, ok := names[name]
			if !ok {
				return fmt.Errorf("unknown member %.80q", name)
			}
			if err := checkNames(member, field); err != nil {
				return err
			}
		}
	case []any:
		if t.Kind() != reflect.Slice || t.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for _, item := range v {
			if err := checkNames(item, t.Elem()); err != nil {
				return err
			}
		}
	}
	return nil
}

// memberTypes lists a struct's members by their JSON names, those of embedded structs included.
func memberTypes(t reflect.Type) map[string]reflect.Type {
	out := make(map[string]reflect.Type, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			for k, v := range memberTypes(f.Type) {
				out[k] = v
			}
		case name != "-":
			out[name] = f.Type
		}
	}
	return out
}
