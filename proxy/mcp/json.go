package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
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

// said is one message from a server. Its texts are in the one form that all clients read.
type said struct {
	id             jsontext.Value // nil if the message has none
	method         member         // of a request or a notification; an answer has a result or an error instead
	params         member
	result, failed member
}

// readSaid drops the members that are not JSON-RPC's. It refuses a message that clients could read in two ways, or that
// only some would take.
func readSaid(text []byte) (said, error) {
	text, err := rewrite(text)
	var o object
	if err == nil {
		o, err = jsonread.Lenient(text, 3)
	}
	if err != nil {
		return said{}, unread("a message of the server is unreadable: %w", err)
	}
	get := func(name string) (m member) {
		if m = o.Get(name); m.Value.Kind() == 'n' { // says no more than an absent member
			return member{}
		}
		return m
	}
	s := said{get("id").Value, get("method"), get("params"), get("result"), get("error")}
	version, _ := o.Get("jsonrpc").Text()
	_, isMethod := s.method.Text()
	kinds := 0
	for _, m := range []member{s.method, s.result, s.failed} {
		if m.Value != nil {
			kinds++
		}
	}
	switch {
	case version != "2.0" || kinds != 1, s.method.Value != nil && !isMethod,
		s.params.Value != nil && s.params.Value.Kind() != '{':
		return said{}, unread("the server sent JSON that is no message of JSON-RPC 2.0")
	case s.result.Value != nil && !isResult(s.result), s.failed.Value != nil && !isError(s.failed):
		return said{}, unread("the server sent a result or an error that some clients read in another way")
	}
	return s, nil
}

// rewrite returns a text that clients read alike, also those that end lines at other characters, and takes half of a
// surrogate pair for the replacement character.
func rewrite(text []byte) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(text))
	if jsonread.Exceeds(text) {
		return nil, fmt.Errorf("%w of the allowed size", jsonread.ErrMalformed)
	}
	if err := v.Format(jsontext.AllowInvalidUTF8(true), jsontext.EscapeForJS(true)); err != nil {
		return nil, jsonread.ErrMalformed
	}
	return bytes.ReplaceAll(v, []byte("\u0085"), []byte(`\u0085`)), nil
}

// isResult refuses members that only some clients take for those that matter. To some, a member __proto__ gives an
// object more members; Python's knows names with underscores.
func isResult(result member) bool {
	_, _, found := result.Members.OtherCase("tools", "inputRequests", "requestState", "resultType", "task", "isError")
	isError := result.Members.Get("isError").Value
	return result.Value.Kind() == '{' && !found && isMeta(result.Members.Get("_meta").Value) &&
		(isError == nil || strings.ContainsRune("tfn", rune(isError.Kind()))) &&
		!slices.ContainsFunc(result.Members, func(m member) bool {
			return slices.Contains([]string{"__proto__", "is_error", "result_type", "input_requests", "request_state"}, m.Name)
		})
}

func isError(failed member) bool {
	_, _, found := failed.Members.OtherCase("code", "message", "data")
	code := failed.Members.Get("code").Value
	_, err := readID(code)
	_, isText := failed.Members.Get("message").Text()
	return !found && err == nil && code.Kind() == '0' && isText && failed.Members.Get("__proto__").Value == nil
}

func isMeta(v jsontext.Value) bool {
	if v == nil || v.Kind() == 'n' {
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

// saidID reads the id of a server's message. A server may spell an integer in another way.
func saidID(v jsontext.Value) (ID, error) {
	if v.Kind() == '0' {
		if f, err := strconv.ParseFloat(string(v), 64); err == nil && f == math.Trunc(f) && math.Abs(f) <= maxInteger {
			return ID(strconv.FormatInt(int64(f), 10)), nil
		}
	}
	return readID(v)
}

// like maps a text of digits and its number to the same value: some servers answer one with the other.
func (id ID) like() string {
	if text, isText := (member{Value: jsontext.Value(id)}).Text(); isText {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return strconv.FormatInt(n, 10)
		}
	}
	return string(id)
}

// text is the message as a client reads it, with an id unless it is empty.
func (s said) text(id ID) []byte {
	text := []byte(`{"jsonrpc":"2.0"`)
	for _, m := range []struct {
		name  string
		value []byte
	}{{"id", []byte(id)}, {"method", s.method.Value}, {"params", s.params.Value}, {"result", s.result.Value},
		{"error", s.failed.Value}} {
		if len(m.value) > 0 {
			text = append(append(text, `,"`+m.name+`":`...), m.value...)
		}
	}
	return append(text, '}')
}

// unread refuses an answer, or the rest of one.
func unread(format string, args ...any) error {
	return refusal.New("mcp_answer_unread", format, args...)
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
