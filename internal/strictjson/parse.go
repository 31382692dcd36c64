package strictjson

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"

	"github.com/actionproof/mediator/internal/refusal"
)

// Parse refuses what [Canonical] and [ParseMembers] refuse.
func Parse(raw []byte, v any) error { return parse(raw, v, true) }

// ParseCanonical decodes only what [CanonicalOf] writes, at most most bytes, into what v points to.
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

// ParseMembers decodes one JSON text into what v points to. It refuses invalid JSON, unknown and duplicate members,
// members in another case, other types, and nesting over [MaxDepth]. null fits every type. An error names line and
// member, never a value; *v is then filled in part.
func ParseMembers(raw []byte, v any) error { return parse(raw, v, false) }

// Check refuses what [ParseMembers] refuses in a text of any form, and more than most names and values: decoded, each
// takes many times the memory of its shortest spelling.
func Check(raw []byte, most int) error {
	r := reader{raw: raw, most: most}
	if err := r.document(nil, reflect.Value{}); err != nil {
		return err.error(raw)
	}
	return nil
}

// maxShared bounds, in bytes, a document whose texts share one copy: each of them keeps the whole document in memory.
const maxShared = 4 << 10

func parse(raw []byte, v any, bounded bool) error {
	r := reader{raw: raw, bounded: bounded}
	if len(raw) <= maxShared {
		r.text = string(raw)
	}
	err := r.document(shapeOf(reflect.TypeOf(v).Elem()), reflect.ValueOf(v).Elem())
	if err == nil {
		return nil
	}
	if err.shape { // what is no JSON at all comes first
		r := reader{raw: raw, bounded: bounded}
		if invalid := r.document(nil, reflect.Value{}); invalid != nil {
			err = invalid
		}
	}
	if err.shape || !bounded {
		return err.error(raw)
	}
	return err.refusal(raw)
}

func (f *fault) error(raw []byte) error {
	return fmt.Errorf("%s: %s %s", position(raw, f.at), cmp.Or(f.path, "the document"), f.text)
}

func (f *fault) refusal(raw []byte) error {
	return refusal.New("content_malformed", "the JSON content has no canonical form (RFC 8785): %w", f.error(raw))
}
