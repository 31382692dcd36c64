package jsonread

import (
	"bytes"
	"errors"
	"fmt"

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
