package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	json2 "github.com/go-json-experiment/json"

	"github.com/actionproof/mediator/internal/refusal"
)

// faultOf says what is wrong with a payload that is not what [Sign] would have written of any claims. Other verifiers find the same fault
// (docs/vectors.md), so the reading is as loose as theirs: of a name twice the last counts, and any spelling of a number counts.
func faultOf[C any](k Kind[C], payload []byte) error {
	c := new(C)
	value, err := looseJSON(payload)
	if err == nil {
		err = assign(value, c)
	}
	if err != nil {
		return refusal.New("claims_malformed", "the claims of the %s are malformed: %.200v", k.Typ, err)
	}
	if _, err := k.codec.encode(c, len(payload)); err != nil {
		return err
	}
	return refusal.New("claims_not_canonical", "the claims of the %s are not in RFC 8785 canonical form, or name a member twice", k.Typ)
}

// looseJSON reads a JSON text of any spelling as JSON.parse and most other libraries do: names stand as they are, and what is no character
// is U+FFFD. Numbers are json.Number.
func looseJSON(text []byte) (value any, err error) {
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

// assign sets what claims points to, which is zero, to a value of [looseJSON]. It refuses members and types that the claims do not have. A
// member that is missing stays zero.
func assign(value, claims any) error {
	value, err := asDoubles(value)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	err = json2.Unmarshal(raw, claims, json2.RejectUnknownMembers(true))
	var fault *json2.SemanticError
	switch {
	case !errors.As(err, &fault):
		return err
	case errors.Is(err, json2.ErrUnknownName):
		return fmt.Errorf("%s: the member is not known", fault.JSONPointer)
	}
	return fmt.Errorf("%s: the value has another type", fault.JSONPointer)
}

// asDoubles returns a value of [looseJSON] with its numbers as doubles, which have one spelling. It refuses null: no claim is null.
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
