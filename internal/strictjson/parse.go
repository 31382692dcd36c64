package strictjson

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	json2 "github.com/go-json-experiment/json"
)

// Parse decodes one JSON text into what v points to, refusing what [Canonical] and [ParseMembers] refuse.
func Parse(raw []byte, v any) error {
	if checkBounds(raw) == nil && readQuick(raw, v) {
		return nil
	}
	if _, err := Canonical(raw); err != nil {
		return err
	}
	return parseMembers(raw, v)
}

// ParseCanonical decodes what [CanonicalOf] has written into what v points to. It refuses more than most bytes, what [Parse] refuses, and every
// other spelling of the same value.
func ParseCanonical(raw []byte, v any, most int) error {
	if len(raw) > most {
		return fmt.Errorf("it has %d bytes; at most %d are read", len(raw), most)
	}
	if err := Parse(raw, v); err != nil {
		return err
	}
	again, err := CanonicalOf(v)
	if err == nil && !bytes.Equal(again, raw) {
		err = errors.New("it is not in canonical form")
	}
	return err
}

// ParseMembers decodes one JSON text into what v points to, refusing unknown members, members that come twice, members in another
// case (encoding/json takes "Grant" for "grant", and the last wins), values of another type, and text after the value. What v keeps
// as raw JSON only has to be JSON. An error says the line and the member, and no value.
func ParseMembers(raw []byte, v any) error {
	if readQuick(raw, v) {
		return nil
	}
	return parseMembers(raw, v)
}

// readQuick decodes a document without a fault in a single pass: json/v2 refuses unknown members, members that come twice or in another
// case, and text that is not UTF-8. Where readQuick refuses, it leaves v as it was: [parseMembers] then says what is wrong and where, or
// accepts what json/v2 is too strict for. Nearly every document is without a fault, and parseMembers takes ten times as long for it: for
// the request of a decision 60 µs or more, a tenth of a whole post. To json/v2 a null is a zero, and here it changes nothing.
func readQuick(raw []byte, v any) bool {
	if bytes.Contains(raw, []byte("null")) {
		return false
	}
	to := reflect.ValueOf(v).Elem()
	read := reflect.New(to.Type())
	read.Elem().Set(to)
	if json2.Unmarshal(raw, read.Interface(), json2.RejectUnknownMembers(true)) != nil {
		return false
	}
	to.Set(read.Elem())
	return true
}

func parseMembers(raw []byte, v any) error {
	if err := checkSyntax(raw); err != nil {
		return err
	}
	s := shape{raw, json.NewDecoder(bytes.NewReader(raw))}
	s.dec.UseNumber()
	if err := s.value("", reflect.TypeOf(v)); err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// shape compares a text with a type. It descends no further than the type does, however deep the text is nested.
type shape struct {
	raw []byte
	dec *json.Decoder
}

func (s shape) say(path, format string, args ...any) error {
	path = cmp.Or(path, "the document")
	return fmt.Errorf("%s: %s %s", position(s.raw, int(s.dec.InputOffset())-1), path, fmt.Sprintf(format, args...))
}

// value reads the next value and compares it with t. null is taken for every type, and changes nothing.
func (s shape) value(path string, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	want := describe(t)
	if want == "" {
		var text json.RawMessage
		if err := s.dec.Decode(&text); err != nil {
			return s.say(path, "cannot be read: %v", err)
		}
		if json.Unmarshal(text, reflect.New(t).Interface()) != nil {
			return s.say(path, "is malformed")
		}
		return nil
	}
	token, err := s.dec.Token()
	if err != nil {
		return s.say(path, "cannot be read: %v", err)
	}
	switch {
	case token == nil:
		return nil
	case !fits(token, t):
		return s.say(path, "must be %s", want)
	case token == json.Delim('{') || token == json.Delim('['):
		return s.children(path, t)
	}
	return nil
}

// children reads what is in an object or an array, and its end.
func (s shape) children(path string, t reflect.Type) error {
	seen := make(map[string]bool)
	for i := 0; s.dec.More(); i++ {
		if t.Kind() == reflect.Slice {
			if err := s.value(fmt.Sprintf("%s[%d]", path, i), t.Elem()); err != nil {
				return err
			}
			continue
		}
		token, err := s.dec.Token()
		if err != nil {
			return s.say(path, "cannot be read: %v", err)
		}
		name, _ := token.(string)
		at := memberPath(path, name)
		child, known := memberType(t, name)
		switch {
		case !known:
			return s.say(at, "is not known")
		case seen[name]:
			return s.say(at, "comes twice")
		}
		seen[name] = true
		if err := s.value(at, child); err != nil {
			return err
		}
	}
	_, err := s.dec.Token()
	return err
}

// describe says what a value of type t is in JSON, and is empty where encoding/json leaves that to the type.
func describe(t reflect.Type) string {
	p := reflect.PointerTo(t)
	if p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return ""
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 { // base64
			return ""
		}
		return "a list"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	}
	return ""
}

// fits reports whether a token begins a value of type t, which describe knows.
func fits(token json.Token, t reflect.Type) bool {
	switch token := token.(type) {
	case json.Delim:
		return token == '{' && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map) || token == '[' && t.Kind() == reflect.Slice
	case string:
		return t.Kind() == reflect.String
	case bool:
		return t.Kind() == reflect.Bool
	case json.Number:
		_, err := strconv.ParseInt(token.String(), 10, 64)
		return err == nil && (t.Kind() == reflect.Int || t.Kind() == reflect.Int64)
	}
	return false
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
			if found, ok := memberType(f.Type, name); ok {
				return found, true
			}
		case f.IsExported() && tag != "-" && (tag == name || tag == "" && f.Name == name):
			return f.Type, true
		}
	}
	return nil, false
}
