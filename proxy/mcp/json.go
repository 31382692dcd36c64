package mcp

import (
	"bytes"
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

// readMessage reads a client's message strictly, with members down to three levels.
func readMessage(text []byte) (object, error) {
	o, err := jsonread.Strict(text, 3)
	switch {
	case errors.Is(err, jsonread.ErrList):
		return nil, refusal.New("message_malformed",
			"the body is a batch of messages; each message goes in a request of its own")
	case errors.Is(err, jsonread.ErrAmbiguous):
		return nil, refusal.New("message_ambiguous", "the message could be read in two ways: %w", err)
	case err != nil:
		return nil, malformed("the body is not a message: %w", err)
	}
	return o, nil
}

func mayBeMessage(text []byte) bool {
	o, err := jsonread.Lenient(text, 1)
	if err != nil {
		return bytes.ContainsAny(text, "{[") // clients take nothing else for a message
	}
	_, _, found := o.OtherCase("jsonrpc")
	return found || o.Get("jsonrpc").Value != nil
}

// unclear reports whether clients may read a message differently.
func unclear(o object) bool {
	_, _, found := o.OtherCase("jsonrpc", "id", "method", "params", "result", "error")
	_, _, inResult := o.Get("result").Members.OtherCase("tools", "inputRequests", "requestState", "resultType", "task",
		"isError")
	answer := o.Get("result").Value != nil || o.Get("error").Value != nil
	return found || inResult || answer && o.Get("method").Value != nil
}

func malformed(format string, args ...any) error {
	return refusal.New("message_malformed", format, args...)
}

func quote(s string) json.RawMessage {
	raw, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return json.RawMessage(raw)
}
