package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	json2 "github.com/go-json-experiment/json"
)

// Loose reads a JSON text of any spelling as JSON.parse and most other libraries do: names stand as they are, and what is no character
// is U+FFFD. Numbers are json.Number.
func Loose(text []byte) (value any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err = dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err = dec.Token(); err != io.EOF {
		return nil, errors.New("there is text after the value")
	}
	return value, nil
}

// LooseInto reads as [Loose] does, into what v points to, which is zero. It refuses members and types that v does not have, and null. A
// member that is missing stays zero.
func LooseInto(text []byte, v any) error {
	value, err := Loose(text)
	if err == nil {
		value, err = asDoubles(value)
	}
	if err != nil {
		return err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	err = json2.Unmarshal(raw, v, json2.RejectUnknownMembers(true))
	var fault *json2.SemanticError
	switch {
	case !errors.As(err, &fault):
		return err
	case errors.Is(err, json2.ErrUnknownName):
		return fmt.Errorf("%s: the member is not known", fault.JSONPointer)
	}
	return fmt.Errorf("%s: the value has another type", fault.JSONPointer)
}

// asDoubles returns a value of [Loose] with its numbers as doubles, which have one spelling. It refuses null: no artifact has one.
func asDoubles(value any) (any, error) {
	switch value := value.(type) {
	case nil:
		return nil, errors.New("a value is null")
	case json.Number:
		return value.Float64()
	case []any:
		for i, v := range value {
			v, err := asDoubles(v)
			if err != nil {
				return nil, err
			}
			value[i] = v
		}
	case map[string]any:
		for name, v := range value {
			v, err := asDoubles(v)
			if err != nil {
				return nil, err
			}
			value[name] = v
		}
	}
	return value, nil
}
