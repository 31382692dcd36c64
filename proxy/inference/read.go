package inference

import (
	"bytes"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/jsonread"
)

// inPlace decodes values as parts of the text instead of copies, because a prompt may be long: the decoder does not
// move a text in memory.
var inPlace = json2.WithUnmarshalers(
	json2.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *jsontext.Value) (err error) {
		*v, err = dec.ReadValue()
		return err
	}))

// decode keeps parts of raw in v. The whole request was read strictly before.
func decode(raw jsontext.Value, v any, what string) error {
	if json2.Unmarshal(raw, v, inPlace) != nil {
		return malformed("%s is not as the API has it", what)
	}
	return nil
}

// decodeObject returns the unknown members. It refuses members in another case: servers that ignore case would act on
// what was not judged.
func decodeObject[T any](raw jsontext.Value, v *T, what string) (others jsonread.Object, err error) {
	if err := decode(raw, v, what); err != nil || raw.Kind() != '{' {
		return nil, err
	}
	all, err := jsonread.Lenient(raw, 1)
	if err != nil {
		return nil, malformed("%s is not as the API has it", what)
	}
	known := membersOf[T]()
	if has, meant, found := all.OtherCase(known...); found {
		return nil, refusal.New("message_ambiguous",
			"%s in the request to the model has the member %.60q, which some parsers take for %s", what, has, meant)
	}
	return slices.DeleteFunc(all, func(m jsonread.Member) bool { return slices.Contains(known, m.Name) }), nil
}

var fields sync.Map

func membersOf[T any]() []string {
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

// each reads value by value: a slice of structs would take hundreds of times the memory of its text.
func each(raw jsontext.Value, what string, do func(jsontext.Value) error) error {
	if raw.Kind() == 'n' {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '[' {
		return malformed("%s is not a list", what)
	}
	for dec.PeekKind() != ']' {
		v, err := dec.ReadValue()
		if err != nil {
			return malformed("%s is not as the API has it", what)
		}
		if err := do(v); err != nil {
			return err
		}
	}
	return nil
}

const maxList = 1024

var errTooMany = errors.New("inference: a list is too long")

type list[T any] []T

func (l *list[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == 'n' {
		return dec.SkipValue()
	}
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '[' {
		return errors.Join(errors.New("inference: not a list"), err)
	}
	for dec.PeekKind() != ']' {
		if len(*l) == maxList {
			return errTooMany
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

// fileID points to a file that the provider keeps.
const fileID = "file_id"

// addresses are members that tell the provider what to fetch.
var addresses = []string{"url", "image_url", "file_url", "video_url", "audio_url", "document_url"}

// texts are members that the model sees as they are, even if they are addresses.
var texts = []string{"text", "title", "context", "filename", "name"}

// sources are members with the sources of an earlier answer.
var sources = []string{"annotations", "citations", "reasoning_details"}

// address is a text that is nothing but an address.
var address = regexp.MustCompile(`(?i)^(?:[a-z][a-z0-9+.-]*://|https?:|file:|ftp:)\S*$`)

// fetched judges content that the provider may fetch: a URL can carry out data of the agent. Servers use many member
// names for it, so every text that is an address counts.
func (r *reading) fetched(member string, v jsontext.Value) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	for {
		token, err := dec.ReadToken()
		if err != nil { // the end, because the request is valid JSON
			return
		}
		switch token.Kind() {
		case '}', ']':
			member = ""
		case '"':
			text := token.String()
			if in, n := dec.StackIndex(dec.StackDepth()); in == '{' && n%2 == 1 {
				member = text
			} else if member == fileID {
				r.state(fileID, text)
			} else if isAddress(member, text) {
				r.acts(RemoteContent)
			}
		}
	}
}

func isAddress(member, text string) bool {
	text = strings.TrimSpace(text)
	is := func(name string) bool { return strings.EqualFold(name, member) }
	switch {
	case isData(text):
		return false
	case slices.ContainsFunc(addresses, is):
		return true
	}
	return !slices.ContainsFunc(texts, is) && address.MatchString(text)
}

func isData(url string) bool { return len(url) >= 5 && strings.EqualFold(url[:5], "data:") }
