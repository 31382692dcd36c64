// Package codec reads and writes claims as RFC 8785 canonical JSON, and checks their texts, in one step: two would take
// several µs longer for each artifact. Claims are strings, bools, int64, float64, and structs, slices and pointers of
// these.
package codec

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

const (
	// maxWhole is the largest whole number that a double represents unambiguously (RFC 7493 section 2.2).
	maxWhole = 1<<53 - 1
	// bytes
	MaxText = 2048
)

// Encode returns the claims that claims points to. It refuses invalid UTF-8, whole numbers beyond maxWhole, and doubles
// without a spelling of their own: infinities, NaN, and -0, which RFC 8785 writes as 0. size is the expected length.
func (c *Codec) Encode(claims any, size int) ([]byte, error) {
	return c.append(make([]byte, 0, size), reflect.ValueOf(claims).Elem())
}

// Decode reads text into the zero value that claims points to. It refuses every text but the one that Encode writes.
func (c *Codec) Decode(text []byte, claims any) error {
	if err := strictjson.ParseMembers(text, claims); err != nil {
		return fmt.Errorf("are malformed: %.200v", err)
	}
	if want, err := c.Encode(claims, len(text)); err != nil || !bytes.Equal(want, text) {
		return errors.New("lack a member, or are not in RFC 8785 canonical form")
	}
	return nil
}

// Codec reads and writes one type as canonical JSON.
type Codec struct {
	kind    reflect.Kind
	members []property // of a struct, in canonical order
	element *Codec     // of a slice or a pointer
}

type property struct {
	claim    string
	name     string // in quotes, with its colon
	field    []int  // index path, through embedded structs
	optional bool   // omitted when empty
	value    *Codec
}

// Check refuses a missing or too long text, and a malformed hash. Names of hashes end in Hash. typ names the artifact.
func (c *Codec) Check(typ string, claims any) error {
	return c.check(typ, "", reflect.ValueOf(claims).Elem())
}

func (c *Codec) check(typ, path string, v reflect.Value) error {
	for i := range c.members {
		m := &c.members[i]
		field := v.FieldByIndex(m.field)
		if m.optional && isEmpty(field) {
			continue
		}
		if err := m.value.checkMember(typ, path, m.claim, field); err != nil {
			return err
		}
	}
	return nil
}

// checkMember gets path and name apart: only an error needs them as one text.
func (c *Codec) checkMember(typ, path, name string, v reflect.Value) error {
	switch c.kind {
	case reflect.String:
		return checkText(typ, path, name, v.String())
	case reflect.Struct:
		return c.check(typ, path+name+".", v)
	case reflect.Pointer:
		return c.element.checkMember(typ, path, name, v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if err := c.element.checkMember(typ, path, name, v.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkText(typ, path, name, text string) error {
	switch {
	case text == "":
		return refusal.New("artifact_malformed", "the %s lacks its claim %s", typ, path+name)
	case len(text) > MaxText:
		return refusal.New("artifact_malformed", "the claim %s of the %s is longer than %d bytes", path+name, typ,
			MaxText)
	case (strings.HasSuffix(name, "Hash") || path != "" && name == "hash") && !IsHash(text):
		return refusal.New("artifact_malformed", "the claim %s of the %s is not a lowercase hex SHA-256", path+name,
			typ)
	}
	return nil
}

// New panics for a type that claims cannot have.
func New(t reflect.Type) *Codec {
	c := &Codec{kind: t.Kind()}
	switch c.kind {
	case reflect.String, reflect.Bool, reflect.Int64, reflect.Float64:
	case reflect.Slice, reflect.Pointer:
		c.element = New(t.Elem())
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if f.Anonymous { // its fields are promoted
				continue
			}
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			c.members = append(c.members,
				property{name, strconv.Quote(name) + ":", f.Index, options == "omitempty", New(f.Type)})
		}
		// Names here are ASCII, so byte order is RFC 8785's order.
		slices.SortFunc(c.members, func(a, b property) int { return strings.Compare(a.name, b.name) })
	default:
		panic("codec: no claim is a " + t.String())
	}
	return c
}

func (c *Codec) append(b []byte, v reflect.Value) ([]byte, error) {
	switch c.kind {
	case reflect.String:
		return appendText(b, v.String())
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int64:
		return appendNumber(b, v.Int())
	case reflect.Float64:
		return appendDouble(b, v.Float())
	case reflect.Struct:
		return c.appendObject(b, v)
	}
	switch {
	case v.IsNil():
		return append(b, "null"...), nil
	case c.kind == reflect.Pointer:
		return c.element.append(b, v.Elem())
	}
	return c.appendList(b, v)
}

func (c *Codec) appendObject(b []byte, v reflect.Value) (_ []byte, err error) {
	open := byte('{')
	for i := range c.members {
		m := &c.members[i]
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

func (c *Codec) appendList(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = c.element.append(b, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func isEmpty(v reflect.Value) bool {
	return v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

func appendText(b []byte, text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return nil, refusal.New("artifact_malformed", "a claim holds a character that is not valid UTF-8")
	}
	return strictjson.AppendText(b, text), nil
}

func appendNumber(b []byte, n int64) ([]byte, error) {
	if n > maxWhole || n < -maxWhole {
		return nil, refusal.New("artifact_malformed", "a claim holds a number beyond 2^53 - 1")
	}
	return strconv.AppendInt(b, n, 10), nil
}

func appendDouble(b []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 && math.Signbit(f) {
		return nil, refusal.New("artifact_malformed", "a claim holds a number that is not finite, or the negative zero")
	}
	return strictjson.AppendNumber(b, f), nil
}

// IsHash reports whether s is a lowercase hex SHA-256.
func IsHash(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
