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

// inPlace leaves the values in what is decoded where they are, instead of copying them: a prompt may be long, and the
// call waits until it is read. A decoder reads a text in memory, such as that of [json2.Unmarshal], without moving it.
var inPlace = json2.WithUnmarshalers(
	json2.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *jsontext.Value) (err error) {
		*v, err = dec.ReadValue()
		return err
	}))

// decode reads a part of a request. The whole request has one reading, so that no part of it can have two. Values in v
// are parts of raw.
func decode(raw jsontext.Value, v any, what string) error {
	if json2.Unmarshal(raw, v, inPlace) != nil {
		return malformed("%s is not as the API has it", what)
	}
	return nil
}

// decodeObject reads an object of a request into a struct. It refuses members that only differ in case from those of
// the struct: servers that read names in any case would act on what was not judged. It returns the other members, which
// the struct does not have.
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

// members are the names of the members of each struct that was asked for: each call to a model asks for the same few.
var members sync.Map

// membersOf returns the names of the members that a struct reads.
func membersOf[T any]() []string {
	t := reflect.TypeFor[T]()
	if names, ok := members.Load(t); ok {
		return names.([]string)
	}
	var names []string
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("json"); name != "" {
			names = append(names, name)
		}
	}
	members.Store(t, names)
	return names
}

// each reads a list value by value. A list of structs would take hundreds of times the memory of its text.
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

// maxList bounds a list of structs that is read as a whole.
const maxList = 1024

var errTooMany = errors.New("inference: a list is too long")

// list is a list of at most [maxList] structs. A longer one cannot be read.
type list[T any] []T

// UnmarshalJSONFrom reads the list.
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

// addresses are members by which content names what the provider is to fetch.
var addresses = []string{"url", "image_url", "file_url", "video_url", "audio_url", "document_url"}

// texts are members that are shown to the model as they are, even if they are addresses.
var texts = []string{"text", "title", "context", "filename", "name"}

// sources are members that say where an earlier answer has its words from.
var sources = []string{"annotations", "citations", "reasoning_details"}

// address is a text that is nothing but the address of something to fetch.
var address = regexp.MustCompile(`(?i)^(?:[a-z][a-z0-9+.-]*://|https?:|file:|ftp:)\S*$`)

// fetched judges content that the provider would fetch: the fetch of a URL can carry out what the agent puts into it.
// Servers name such content in members of many names, so that each text counts that is an address. member is the name
// of the value.
func (r *reading) fetched(member string, v jsontext.Value) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	for {
		token, err := dec.ReadToken()
		if err != nil { // the whole request is JSON: this is its end
			return nil
		}
		switch token.Kind() {
		case '}', ']':
			member = ""
		case '"':
			text := token.String()
			if in, n := dec.StackIndex(dec.StackDepth()); in == '{' && n%2 == 1 {
				member = text
			} else if isAddress(member, text) {
				return r.hosted(RemoteContent)
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

// isData reports whether a URL holds its content itself (RFC 2397).
func isData(url string) bool { return len(url) >= 5 && strings.EqualFold(url[:5], "data:") }
