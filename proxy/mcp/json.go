package mcp

import (
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/jsonread"
)

type (
	object = jsonread.Object
	member = jsonread.Member
)

// readMessage reads a client's message strictly, with its members down to three levels. Servers' answers are not read strictly: what is
// not understood of them is not used.
func readMessage(text []byte) (object, error) {
	o, err := jsonread.Strict(text, 3)
	switch {
	case errors.Is(err, jsonread.ErrList):
		return nil, refusal.New("mcp_batch_refused", "the body is a batch of messages; each message goes in a request of its own")
	case errors.Is(err, jsonread.ErrAmbiguous):
		return nil, refusal.New("mcp_message_ambiguous", "the message could be read in two ways: %w", err)
	case err != nil:
		return nil, malformed("the body is not a message: %w", err)
	}
	return o, nil
}

func malformed(format string, args ...any) error {
	return refusal.New("mcp_message_malformed", format, args...)
}

// quote returns a text as JSON.
func quote(s string) json.RawMessage {
	raw, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return json.RawMessage(raw)
}
