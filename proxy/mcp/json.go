package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/jsonread"
)

type (
	object = jsonread.Object
	member = jsonread.Member
)

func readMessage(text []byte) (object, error) {
	o, err := jsonread.Strict(text, 3)
	switch {
	case errors.Is(err, jsonread.ErrList):
		return nil, refusal.New("message_malformed",
			"the body is a batch of messages: send each message in its own request")
	case errors.Is(err, jsonread.ErrAmbiguous):
		return nil, refusal.New("message_ambiguous", "the message could be read in two ways: %w", err)
	case err != nil:
		return nil, malformed("the body is not a message: %w", err)
	}
	return o, nil
}

// IsMessage reports whether an object has the members of a JSON-RPC message, and no others.
func IsMessage(o jsonread.Object) bool {
	return o.Get("jsonrpc").Value != nil && !slices.ContainsFunc(o, func(m member) bool {
		return !slices.Contains([]string{"jsonrpc", "id", "method", "params", "result", "error"}, m.Name)
	})
}

func mayBeMessage(text []byte) bool {
	o, err := jsonread.Lenient(text, 1)
	if err != nil {
		return bytes.ContainsAny(text, "{[") // clients take nothing else for a message
	}
	_, _, found := o.OtherCase("jsonrpc", "id")
	return found || o.Get("jsonrpc").Value != nil || o.Get("id").Value != nil // enough for mcp-go
}

// mayBeWhole reports whether the first bracket in a text that broke off is closed. Some clients ignore what is around
// it.
func mayBeWhole(text []byte) bool {
	depth, quoted := 0, false
	for i := max(0, bytes.IndexAny(text, "{[")); i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return true
			}
		}
	}
	return false
}

// mayHaveResult reports whether some clients find a result in a text that was read as o, or could not be.
func mayHaveResult(text []byte, o object, err error) bool {
	if err != nil {
		text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))
		return bytes.HasPrefix(text, []byte("{")) && mayBeWhole(text)
	}
	return slices.ContainsFunc(o, func(m member) bool {
		return strings.EqualFold(m.Name, "result") && m.Value.Kind() == '{'
	})
}

// unclear reports whether some clients may read another message. To some, a member __proto__ gives an object more
// members.
func unclear(o object) bool {
	for _, members := range []object{o, o.Get("result").Members, o.Get("error").Members} {
		if members.Get("__proto__").Value != nil {
			return true
		}
	}
	_, _, found := o.OtherCase("jsonrpc", "id", "method", "params", "result", "error")
	_, _, inResult := o.Get("result").Members.OtherCase("tools", "inputRequests", "requestState", "resultType", "task",
		"isError")
	_, _, inError := o.Get("error").Members.OtherCase("code", "message", "data")
	return found || inResult || inError || isAnswer(o) && o.Get("method").Value != nil
}

func isAnswer(o object) bool { return o.Get("result").Value != nil || o.Get("error").Value != nil }

// isTaken reports whether every client takes a message. Some drop one that has a member too many, or one of another
// type.
func isTaken(o object) bool {
	version, _ := o.Get("jsonrpc").Text()
	method := o.Get("method").Value
	is := func(name, kinds string) bool {
		v := o.Get(name).Value
		return v == nil || strings.ContainsRune(kinds, rune(v.Kind()))
	}
	switch {
	case version != "2.0":
		return false
	case method != nil:
		return is("method", `"`) && is("params", "{n")
	case slices.ContainsFunc(o, func(m member) bool {
		return !slices.Contains([]string{"jsonrpc", "id", "result", "error"}, m.Name)
	}):
		return false
	}
	if failure := o.Get("error"); failure.Value != nil {
		code := failure.Members.Get("code").Value
		_, err := readID(code)
		_, isText := failure.Members.Get("message").Text()
		return err == nil && code.Kind() == '0' && isText
	}
	result := o.Get("result").Members
	return isAnswer(o) && isMeta(result.Get("_meta").Value) && !slices.ContainsFunc(result, func(m member) bool {
		return slices.Contains([]string{"is_error", "result_type", "input_requests", "request_state"}, m.Name) // Python
	})
}

func isMeta(v jsontext.Value) bool {
	if v == nil {
		return true
	}
	o, err := jsonread.Lenient(v, 2)
	if err != nil {
		return false
	}
	token, task := o.Get("progressToken").Value, o.Get("io.modelcontextprotocol/related-task")
	_, named := task.Members.Get("taskId").Text()
	_, tokenErr := readID(token)
	return (token == nil || tokenErr == nil) && (task.Value == nil || named)
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
