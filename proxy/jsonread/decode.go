package jsonread

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// inPlace decodes values as parts of the text instead of copies, because a text may be long: the decoder does not move
// a text in memory.
var inPlace = json2.WithUnmarshalers(
	json2.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *jsontext.Value) (err error) {
		*v, err = dec.ReadValue()
		return err
	}))

// Decode keeps parts of raw in v. raw was read strictly before.
func Decode(raw jsontext.Value, v any) error {
	if json2.Unmarshal(raw, v, inPlace) != nil {
		return ErrMalformed
	}
	return nil
}

// DecodeObject returns the members that v does not have. It refuses members in another case, with [ErrAmbiguous]:
// servers that ignore case would act on what was not judged.
func DecodeObject[T any](raw jsontext.Value, v *T) (others Object, err error) {
	if err := Decode(raw, v); err != nil || raw.Kind() != '{' {
		return nil, err
	}
	all, err := Lenient(raw, 1)
	if err != nil {
		return nil, err
	}
	known := fieldsOf[T]()
	if has, meant, found := all.OtherCase(known...); found {
		return nil, fmt.Errorf("%w: it has the member %.60q, which some parsers take for %s", ErrAmbiguous, has, meant)
	}
	return slices.DeleteFunc(all, func(m Member) bool { return slices.Contains(known, m.Name) }), nil
}

var fields sync.Map

func fieldsOf[T any]() []string {
	t := reflect.TypeFor[T]()
	if names, ok := fields.Load(t); ok {
		return names.([]string)
	}
	var names []string
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("json"); name != "" {
			names = append(names, name)
		}
	}
	fields.Store(t, names)
	return names
}

// Each calls do with value after value of a list: a slice of structs would take hundreds of times the memory of its
// text. A null is an empty list.
func Each(raw jsontext.Value, do func(jsontext.Value) error) error {
	if raw.Kind() == 'n' {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '[' {
		return fmt.Errorf("%w: it is not a list", ErrMalformed)
	}
	for dec.PeekKind() != ']' {
		v, err := dec.ReadValue()
		if err != nil {
			return ErrMalformed
		}
		if err := do(v); err != nil {
			return err
		}
	}
	return nil
}

const maxList = 1024

// List decodes at most 1,024 values.
type List[T any] []T

// UnmarshalJSONFrom implements [json2.UnmarshalerFrom].
func (l *List[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == 'n' {
		return dec.SkipValue()
	}
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '[' {
		return errors.Join(errors.New("jsonread: not a list"), err)
	}
	for dec.PeekKind() != ']' {
		if len(*l) == maxList {
			return errors.New("jsonread: a list is too long")
		}
		var v T
		if err := json2.UnmarshalDecode(dec, &v); err != nil {
			return err
		}
		*l = append(*l, v)
	}
	_, err := dec.ReadToken()
	return err
}
