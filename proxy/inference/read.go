package inference

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/inference/members"
	"github.com/actionproof/mediator/proxy/jsonread"
)

// unreadable is the refusal for a part of a request that package jsonread did not read.
func unreadable(err error, what string) error {
	switch {
	case errors.Is(err, jsonread.ErrAmbiguous):
		return refusal.New("message_ambiguous", "%s in the request to the model: %w", what, err)
	case errors.Is(err, jsonread.ErrMalformed):
		return malformed("%s is not as the API has it", what)
	}
	return err
}

func each(raw jsontext.Value, what string, do func(jsontext.Value) error) error {
	return unreadable(jsonread.Each(raw, do), what)
}

type list[T any] = jsonread.List[T]

// fetched judges content that the provider may fetch: a URL can carry out data of the agent. Servers use many member
// names for it, so every text that is an address counts. It also judges ids of files.
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
			} else if members.IsFileID(member) {
				r.state("file_id", text)
			} else if members.IsAddress(member, text) {
				r.acts(RemoteContent)
			}
		}
	}
}
