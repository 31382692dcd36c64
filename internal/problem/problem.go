// Package problem writes RFC 9457 problem documents from coded errors, and holds the one table of codes.
package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// ContentType is the media type of a problem document (RFC 9457 section 3).
const ContentType = "application/problem+json"

// Details is one problem document. Code, Step, Remedy, Post and Challenge are extension members (RFC 9457
// section 3.2), as is the brief that Write adds.
type Details struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Code is stable: programs may branch on it.
	Code string `json:"code"`
	// Step is the step of the way of one post that refused, as docs/errors.md names it.
	Step string `json:"step"`
	// Remedy says what to do.
	Remedy string `json:"remedy"`
	// Post is the id under which the mediator keeps its record, where there is one.
	Post string `json:"post,omitempty"`
	// Challenge is the challenge to solve, where that is what is asked.
	Challenge json.RawMessage `json:"challenge,omitempty"`
	// Authenticate is the value of WWW-Authenticate, where there is one.
	Authenticate string `json:"-"`
	// RetryAfter is in seconds; zero says nothing.
	RetryAfter int `json:"-"`
}

// brief is the member error of a document that is written: code and detail once more, where vendors' SDKs look for them. Some, such as
// OpenAI's, show nothing else, and to Stripe's an answer without it is a success, whatever its status.
type brief struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// internal is what the caller learns of an error that nobody classified: nothing.
const internal = "internal"

// From makes the document for err. The table gives status, title and remedy for a code; an error without a code, or with one
// that the table does not know, becomes "internal" and tells nothing of itself. An error that knows when to try again says so by RetryAfter, in seconds.
func From(err error) Details {
	var coded interface {
		error
		Code() string
	}
	if errors.As(err, &coded) {
		if c, ok := table[coded.Code()]; ok {
			d := c.details(coded.Error())
			var later interface{ RetryAfter() int }
			if errors.As(err, &later) {
				d.RetryAfter = later.RetryAfter()
			}
			return d
		}
	}
	c := table[internal]
	return c.details("the call could not be handled, for a reason that is not for its caller; nothing was sent")
}

func (c Code) details(detail string) Details {
	return Details{
		Type: "https://github.com/actionproof/mediator/blob/main/docs/errors.md#" + c.Name, Title: c.Title, Status: c.Status, Detail: detail,
		Code: c.Name, Step: c.Step, Remedy: c.Remedy, Authenticate: c.Authenticate, RetryAfter: c.RetryAfter,
	}
}

// Write answers with the document for err.
func Write(w http.ResponseWriter, err error) { From(err).Write(w) }

// Write answers with d. Problem documents are never cached and never sniffed.
func (d Details) Write(w http.ResponseWriter) {
	body, err := json.Marshal(struct {
		Details
		Error brief `json:"error"`
	}{d, brief{d.Code, d.Detail}})
	if err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", ContentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if d.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(d.RetryAfter))
	}
	if d.Authenticate != "" {
		h.Set("WWW-Authenticate", d.Authenticate)
	}
	if d.Status == http.StatusProxyAuthRequired {
		h.Set("Proxy-Authenticate", `Basic realm="mediator"`)
	}
	w.WriteHeader(d.Status)
	_, _ = w.Write(body)
}

// Error is a problem that another service answered with.
type Error struct{ Details Details }

// Code returns the code that the service gave.
func (e *Error) Code() string { return e.Details.Code }

// Error returns the service's sentence.
func (e *Error) Error() string { return e.Details.Detail }

// maxDocument bounds a problem document that is read, in bytes.
const maxDocument = 64 << 10

// Read turns a response that is not a success into an error: [*Error] where it carries a problem document with a code.
func Read(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return fmt.Errorf("read the answer %s: %w", resp.Status, err)
	}
	var d Details
	if json.Unmarshal(raw, &d) != nil || d.Code == "" {
		return fmt.Errorf("the answer was %s, without a problem document", resp.Status)
	}
	return &Error{Details: d}
}
