package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
)

// maxWhole is the greatest whole number of which a double is no other number as well (RFC 7493 section 2.2). Claims hold none beyond it.
const maxWhole = 1<<53 - 1

// decodeSlowly decodes every payload that is in order, and says what is wrong with any other.
func decodeSlowly[C any](k Kind[C], payload string) (*C, error) {
	c := new(C)
	value, err := looseJSON(payload)
	if err == nil {
		err = k.codec.fill(value, reflect.ValueOf(c).Elem(), "")
	}
	if err != nil {
		return nil, refusal.New("claims_malformed", "the claims of the %s are malformed: %.200v", k.Typ, err)
	}
	same := false
	if err := k.codec.encode(c, func(want []byte) { same = string(want) == payload }); err != nil {
		return nil, err
	}
	if !same {
		return nil, refusal.New("claims_not_canonical", "the claims of the %s are not in RFC 8785 canonical form, or name a member twice", k.Typ)
	}
	return c, nil
}

// looseJSON reads a JSON text of any spelling as JSON.parse and most other libraries do, so that every verifier finds the same fault in it: names stand
// as they are, of a name twice the last counts, and what is no character is U+FFFD. Numbers are json.Number.
func looseJSON(text string) (value any, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err = dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err = dec.Token(); err != io.EOF {
		return nil, errors.New("there is text after the value")
	}
	return value, nil
}

// fill sets v, which is zero, to a value of [looseJSON], and refuses members and types that v does not have. A member that is missing stays zero.
// at is the member that holds the value.
func (c *codec) fill(value any, v reflect.Value, at string) error {
	ok := false
	switch c.kind {
	case reflect.String:
		var text string
		if text, ok = value.(string); ok {
			v.SetString(text)
		}
	case reflect.Bool:
		var b bool
		if b, ok = value.(bool); ok {
			v.SetBool(b)
		}
	case reflect.Int64:
		var n int64
		if n, ok = whole(value); ok {
			v.SetInt(n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return c.element.fill(value, v.Elem(), at)
	case reflect.Struct:
		if object, isObject := value.(map[string]any); isObject {
			return c.fillObject(object, v, at)
		}
	case reflect.Slice:
		if list, isList := value.([]any); isList {
			return c.fillList(list, v, at)
		}
	}
	if !ok {
		return fmt.Errorf("%sthe value has another type", at)
	}
	return nil
}

func (c *codec) fillObject(object map[string]any, v reflect.Value, at string) error {
	known := 0
	for i := range c.members {
		m := &c.members[i]
		name := strings.Trim(m.name, `":`)
		value, there := object[name]
		if !there {
			continue
		}
		known++
		if err := m.value.fill(value, v.FieldByIndex(m.field), at+name+": "); err != nil {
			return err
		}
	}
	if known < len(object) {
		return fmt.Errorf("%sa member is not known", at)
	}
	return nil
}

func (c *codec) fillList(list []any, v reflect.Value, at string) error {
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i, value := range list {
		if err := c.element.fill(value, v.Index(i), at); err != nil {
			return err
		}
	}
	return nil
}

// whole returns a number that is a whole one as a double, however it is written.
func whole(value any) (int64, bool) {
	n, isNumber := value.(json.Number)
	f, err := n.Float64()
	return int64(f), isNumber && err == nil && f == math.Trunc(f) && math.Abs(f) <= maxWhole
}
