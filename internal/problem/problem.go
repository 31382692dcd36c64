// Package problem writes RFC 9457 problem documents from coded errors, and holds the one table of codes.
package problem

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

const mediaType = "application/problem+json" // RFC 9457 section 3

// ContentType is the header of a problem document. Octokit reads text only of a type with a charset.
const ContentType = mediaType + "; charset=utf-8"

// Is reports whether a response is a problem document, of any charset: other programs write none.
func Is(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == mediaType
}

// Details is one problem document.
type Details struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
	Step   string `json:"step"`
	Remedy string `json:"remedy"`
	// ID of the call's record
	Post string `json:"post,omitempty"`
	// name and purpose of the call's rule, if it has a purpose
	Rule json.RawMessage `json:"rule,omitempty"`
	// to solve, if fresh work is demanded
	Challenge json.RawMessage `json:"challenge,omitempty"`
	// the error of a model's API, for the agent alone
	Upstream     json.RawMessage `json:"upstream,omitempty"`
	Authenticate string          `json:"-"` // value of WWW-Authenticate, if any
	RetryAfter   int             `json:"-"` // seconds, if any

	public string // the part of Detail that an agent may read
}

// brief is the member error, for SDKs of vendors: OpenAI's shows nothing else, and Stripe's takes an answer without it
// for a success. gh and Resend show only the member message.
type brief struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

const internal = "internal"

// DetailsOf makes the document for err. An error without a known code becomes "internal" and loses its text. err can
// have a method RetryAfter, which returns seconds.
func DetailsOf(err error) Details {
	var coded interface {
		error
		Code() string
	}
	if errors.As(err, &coded) {
		if c, ok := table[coded.Code()]; ok {
			d := c.details(coded.Error())
			if partly, ok := coded.(interface{ Public() string }); ok && c.Public {
				d.public = partly.Public()
			}
			var later interface{ RetryAfter() int }
			if errors.As(err, &later) {
				d.RetryAfter = later.RetryAfter()
			}
			return d
		}
	}
	d := table[internal].details("the call could not be handled; nothing was sent")
	d.public = d.Detail
	return d
}

func (c Code) details(detail string) Details {
	return Details{
		Type:  "https://github.com/actionproof/mediator/blob/main/docs/errors.md#" + c.Name,
		Title: c.Title, Status: c.Status, Detail: detail, Code: c.Name, Step: c.Step, Remedy: c.Remedy,
		Authenticate: c.Authenticate, RetryAfter: c.RetryAfter,
	}
}

// ForAgent makes the document for err that an untrusted agent may read. post is the ID of the call's record, if any.
func ForAgent(err error, post string) Details {
	d := DetailsOf(err)
	d.Post, d.Detail = post, d.public
	if d.Detail != "" {
		return d
	}
	d.Detail = d.Title
	if post != "" {
		d.Detail += "; the operator can see why: mediator posts show " + post
	}
	return d
}

// Advice tells a model in sentences why it has no answer, what to do, and whether to try again.
func (d Details) Advice() string {
	again := ""
	switch {
	case d.RetryAfter > 0:
		again = fmt.Sprintf(" Try again in %d seconds.", d.RetryAfter)
	case d.Status < http.StatusInternalServerError:
		again = " The same call will be refused again."
	}
	text := fmt.Sprintf("The mediator answers this call itself (%s): %s. What to do: %s%s", d.Code,
		strings.TrimSuffix(d.Detail, "."), d.Remedy, again)
	if d.Post != "" {
		text += " Record: " + d.Post + ", also at http://mediator.internal/v1/refusals."
	}
	return text
}

// Write answers with the document for err, to operators and to the mediator's other processes.
func Write(w http.ResponseWriter, err error) { DetailsOf(err).Write(w) }

func (d Details) Write(w http.ResponseWriter) {
	d.WriteAs(w, ContentType, struct {
		Details
		Message string `json:"message"`
		Error   brief  `json:"error"`
	}{d, d.Detail, brief{d.Code, d.Detail}})
}

// WriteAs writes document as JSON. Problem documents are never cached and never sniffed.
func (d Details) WriteAs(w http.ResponseWriter, contentType string, document any) {
	body, err := json.Marshal(document)
	d.write(w, contentType, body, err)
}

func (d Details) write(w http.ResponseWriter, contentType string, body []byte, err error) {
	if err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	body = append(body, '\n') // for people in a terminal
	h := w.Header()
	h.Set("Content-Type", contentType)
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

// Error is a problem document that another service answered with.
type Error struct{ Details Details }

func (e *Error) Code() string { return e.Details.Code }

func (e *Error) Error() string { return e.Details.Detail }

// Public is the whole sentence: the mediator's processes put nothing for operators into a public code.
func (e *Error) Public() string { return e.Details.Detail }

// RetryAfter is in seconds; 0 means that a retry does not help.
func (e *Error) RetryAfter() int {
	return cmp.Or(e.Details.RetryAfter, table[e.Details.Code].RetryAfter)
}

const maxDocument = 64 << 10

const maxRetryAfter = 24 * 60 * 60

// Read makes an [*Error] of a response with a problem document and a code, or any other error.
func Read(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return fmt.Errorf("read the answer %s: %w", resp.Status, err)
	}
	var d Details
	if json.Unmarshal(raw, &d) != nil || d.Code == "" {
		return fmt.Errorf("the answer was %s, without a problem document", resp.Status)
	}
	if wait, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && wait > 0 && wait <= maxRetryAfter {
		d.RetryAfter = wait
	}
	return &Error{Details: d}
}
