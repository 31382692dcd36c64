package generate

import (
	"net/http"
	"strconv"
	"strings"
	"unicode"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/inference"
)

const (
	maxFailure    = 64 << 10 // bytes read of an error answer
	maxMessage    = 512      // characters of the API's message
	maxRetryAfter = 3600     // seconds
)

// Failure is an error answer of a model's API. Error has only its status and code, and is safe for records. The message
// is for the agent alone, because it may repeat the prompt.
type Failure struct {
	refused error
	// Status is the HTTP status. Code and Message come from the answer's error; Message has at most 512 characters.
	Status  int    `json:"status"`
	Code    string `json:"code,omitzero"`
	Message string `json:"message,omitzero"`
}

func (f *Failure) Error() string { return f.refused.Error() }

func (f *Failure) Unwrap() error { return f.refused }

// Document returns what the API said, as JSON.
func (f *Failure) Document() []byte {
	raw, err := json2.Marshal(f)
	if err != nil {
		return nil
	}
	return raw
}

func failureOf(status int, header http.Header, body []byte) error {
	f := &Failure{Status: status}
	f.Code, f.Message = readFailure(body)
	said := "the model's API answered with the status " + strconv.Itoa(status)
	if f.Code != "" {
		said += " and the error " + f.Code
	}
	refused := refusal.New("generate_refused", "%s", said)
	f.refused = refused
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil && seconds > 0 {
		f.refused = refusal.Later{Refusal: refused, Seconds: min(seconds, maxRetryAfter)}
	}
	return f
}

// readFailure reads the error of any API: {"error": {"type", "code", "message"}}, or an error that is a text.
func readFailure(body []byte) (code, message string) {
	var top struct {
		Error   jsontext.Value `json:"error"`
		Message string         `json:"message"`
	}
	if json2.Unmarshal(body, &top) != nil {
		return "", ""
	}
	message = top.Message
	var said struct {
		Message string `json:"message"`
	}
	switch {
	case top.Error.Kind() == '"':
		_ = json2.Unmarshal(top.Error, &message)
	case top.Error.Kind() == '{' && json2.Unmarshal(top.Error, &said) == nil:
		message = said.Message
	}
	return inference.ErrorCode(top.Error), printable(message)
}

// printable returns the beginning of a text, with spaces for characters that a terminal would obey.
func printable(s string) string {
	n := 0
	return strings.Map(func(r rune) rune {
		if n++; n > maxMessage {
			return -1
		}
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}
