package mcp

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/proxy/jsonread"
	"github.com/actionproof/mediator/proxy/sse"
)

const maxAnswer = 4 << 20

const maxEvents = 32

const maxEventID = 256

// Watch says which answer to read, and what to do with it.
type Watch struct {
	Sent   *Message // nil for an event stream that the client opens
	Flight *Flight  // of Sent; nil if Sent expects no answer
	Header http.Header
	Path   string // of the request, as sent
	Peer   Peer
	Memory *Memory
	Shared *Definitions
	Rules  []*Rule
	// reports whether a request to a path of the origin is refused, or read like its answer
	Reads func(method, path string) bool
	// reserves n bytes of memory, until Free; if it fails, the reading stops
	Take func(n int) bool
	Free func()
	// Turn waits until a text of this size may be read, which takes many times its memory.
	Turn func(size int) (done func())
	// for each tool that the server lists, whether a rule names it, with its definition's hash if it has one
	Listed func(tool, hash string, named bool)
	// for each tool whose definition differs from the pinned one, or from one shown before in any session
	Changed func(tool, before, now string)
	// gets a tool call's result as JSON; may be nil
	Returned func(result []byte)
}

// Answer is an [io.Writer] that reads an answer as it passes, and notes in the session's memory what the server asks
// and shows. Not safe for concurrent use.
type Answer struct {
	Watch
	peer      Peer   // includes the session that this answer starts
	lastEvent string // with which the client resumes an answer

	json   bool
	moved  bool // the client's next request is read, and gets the answer
	other  bool // a failed answer of another type, which some clients read as JSON
	length int  // from the header; negative if unknown
	stream *sse.Reader
	split  bool // see [sse.Event]
	held   []byte
	result Result
	status int
	blind  bool
	cut    error // why the rest of the answer must not pass
	events []string

	resumed []func()     // see [Memory.resume]
	filters bool         // see [Answer.filter]
	out     bytes.Buffer // events that may pass
}

// NewAnswer begins to read the answer that w describes.
func NewAnswer(w Watch, status int, header http.Header) *Answer {
	a := &Answer{Watch: w, peer: w.Peer, lastEvent: w.Header.Get("Last-Event-Id"), status: status}
	a.session(header)
	failed := status >= http.StatusBadRequest
	a.moved = a.movedTo(header["Location"])
	if failed && a.isRequest() {
		a.result = ResultError
	}
	encoding := strings.Join(header["Content-Encoding"], ", ")
	plain := encoding == "" || encoding == "identity"
	said := strings.ToLower(strings.Join(header["Content-Type"], ", "))
	kind, params, err := mime.ParseMediaType(said)
	// some clients decode by charset
	c := params["charset"]
	delete(params, "charset") // some take another one for the type, or read one that is spelled by RFC 2231
	if err != nil || c != "" && c != "utf-8" && c != "utf8" || len(params) > 0 || strings.Contains(said, "*") {
		plain = false
	}
	stream := kind == "text/event-stream"
	text := kind == "application/json" && a.Sent != nil // some clients read any answer to a GET as a stream
	meant := a.Sent != nil && (strings.Contains(said, "/event-stream") || strings.Contains(said, "application/json"))
	awaited := a.Sent == nil || a.isRequest() && status != http.StatusAccepted
	switch {
	case a.moved:
		a.blind = true
		a.Memory.redirected(a.peer, a.Flight)
	case status/100 == 3: // the client may take any answer of another URL
		a.lose(true)
	case stream && plain:
		a.stream = sse.NewReader(maxAnswer)
	case text && plain:
		a.json, a.length = true, -1
		if n, err := strconv.Atoi(header.Get("Content-Length")); err == nil {
			a.length = n
		}
	case stream, meant, awaited && !failed && status != http.StatusNoContent:
		a.lose(a.Sent == nil || strings.Contains(said, "/event-stream"))
	}
	if failed && a.isRequest() && !a.json {
		if a.other = encoding == "" || encoding == "identity"; !a.other {
			a.failedUnread()
		}
	}
	return a
}

// movedTo reports whether a redirect makes the client repeat the request where its answer is read. Most clients make a
// GET of a request unless the status forbids it.
func (a *Answer) movedTo(location []string) bool {
	method, redirects := http.MethodPost, []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect}
	if a.Sent == nil {
		method = http.MethodGet
		redirects = append(redirects, http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther)
	}
	return slices.Contains(redirects, a.status) && a.Reads(method, a.peer.pathOf(location...))
}

// session removes every session but the one that an answer starts: some clients would move their requests to it.
func (a *Answer) session(header http.Header) {
	const name = "Mcp-Session-Id"
	given := header[name]
	starts := a.Sent != nil && a.Sent.Method == initialize
	switch {
	case starts && len(given) == 1 && given[0] != "" && len(given[0]) <= maxHeader: // a longer one no request may name
		a.peer.Session = given[0]
	case len(given) != 1 || given[0] != a.Peer.Session:
		header.Del(name)
	}
}

func (a *Answer) isRequest() bool { return a.Sent != nil && a.Sent.IsRequest() }

func (a *Answer) Close() {
	a.json, a.other, a.stream, a.held = false, false, nil, nil
	a.Free()
}

// goesOn means that the rest may be a stream of messages.
func (a *Answer) lose(goesOn bool) {
	a.json, a.stream, a.held, a.blind = false, nil, nil, true
	a.Memory.missed(a.peer, goesOn, false, nil)
}

func (a *Answer) miss() {
	a.blind = true
	a.Memory.missed(a.peer, false, false, nil)
}

// unread notes a message that clients can read, and may take for the answer to any request, also to one that is still
// on its way to the mediator.
func (a *Answer) unread() {
	a.doubt()
	a.blind = true
	a.Memory.missed(a.peer, a.stream != nil, true, a.Flight)
}

// doubt notes a message that some clients take for the answer to the request that this answer, or the one that it
// resumes, belongs to: they expect no other there, even under another id.
func (a *Answer) doubt() {
	switch {
	case a.isRequest() && a.result == "":
		a.result = ResultUnseen
	case a.Sent == nil && a.lastEvent != "":
		a.Memory.follow(a.peer, a.lastEvent, "")
	}
}

// Write fails if the piece must not pass, because the server asks too much.
func (a *Answer) Write(p []byte) (int, error) {
	switch {
	case a.cut != nil:
	case a.json && len(a.held) == 0 && len(p) == a.length: // a whole answer need not be held
		a.json = false
		a.message(p)
	case a.json && (len(a.held)+len(p) > maxAnswer || !a.Take(len(p))):
		if a.lose(false); a.result == ResultError { // by its status, which some clients ignore
			a.result = ResultUnseen
		}
	case a.json:
		// The client may continue before End is called.
		if a.held = append(a.held, p...); len(a.held) == a.length {
			a.json = false
			a.message(a.held)
			a.held = nil
		}
	case a.stream != nil:
		before := a.stream.Held()
		a.stream.Write(p, a.event)
		if a.stream.Odd() {
			a.unread()
		}
		if after := a.stream.Held(); a.stream.Over() || after > before && !a.Take(after-before) {
			a.lose(true)
		}
	}
	if a.other && a.cut == nil {
		a.failure(p)
	}
	a.hide()
	if a.cut != nil {
		a.doubt() // nothing of this piece passes
	}
	for _, end := range a.resumed {
		end()
	}
	if a.resumed = nil; a.cut != nil {
		return 0, a.cut
	}
	return len(p), nil
}

// hide cuts off what could not be read, if it may be a list of tools of which the client sees only some.
func (a *Answer) hide() {
	mayList := func() bool { return a.Sent != nil && a.Sent.Method == listTools || a.Memory.lists(a.peer) }
	if a.blind && !a.moved && a.cut == nil && (a.filters || a.hides() && mayList()) {
		a.cut = errList()
	}
}

// End ends the answer. [io.EOF] means that it is complete.
func (a *Answer) End(err error) {
	switch {
	case a.json && errors.Is(err, io.EOF) && (len(a.held) > 0 || a.status != http.StatusAccepted):
		a.message(a.held)
	case a.json:
		a.rest(a.held)
	case a.stream != nil:
		text := a.stream.End()
		if a.rest(text); a.stream.Endpoint() && len(text) > 0 && a.cut == nil && !a.leads(text) {
			a.cut = errEndpoint()
		}
		if a.stream.Odd() {
			a.unread()
		}
	}
	if a.other {
		a.refusal(a.held)
	}
	if !a.filters { // otherwise nothing unread has passed
		a.hide()
	}
	a.json, a.other, a.held = false, false, nil
}

// Refused returns why an answer that has ended must not count as whole.
func (a *Answer) Refused() error { return a.cut }

func (a *Answer) failure(p []byte) {
	if len(a.held)+len(p) > maxAnswer || !a.Take(len(p)) {
		a.other, a.held = false, nil
		a.failedUnread()
		return
	}
	a.held = append(a.held, p...)
}

// failedUnread notes a failed answer that some clients read as the request's answer all the same.
func (a *Answer) failedUnread() {
	a.result = ResultUnseen
	a.miss()
}

// Some clients read a failed answer of another type as the request's error, if it is JSON, or even as its result.
func (a *Answer) refusal(text []byte) {
	defer a.Turn(len(text))()
	o, err := jsonread.Lenient(text, 3)
	switch {
	case mayHaveResult(text, o, err):
		a.failedUnread()
	case err == nil && !unclear(o):
		a.sendsHuman(o)
	case err == nil && bytes.Contains(text, []byte("32042")): // named in another case
		a.Memory.doubt(a.Flight)
	}
}

// Some clients accept a message without its end if it is whole.
func (a *Answer) rest(text []byte) {
	defer a.Turn(len(text))()
	o, err := jsonread.Lenient(text, 3)
	a.ignoringStatus(text, o, err)
	switch {
	case err != nil && mayBeWhole(text), err == nil && unclear(o):
		a.miss()
	case err == nil && o.Get("method").Value != nil:
		a.asks(o)
	case err == nil:
		a.sendsHuman(o)
		a.show(o.Get("result").Members, false)
	}
}

// Followed reports whether all messages so far were read.
func (a *Answer) Followed() bool { return !a.blind }

func (a *Answer) event(e sse.Event) {
	if e.ID != "" && len(e.ID) <= maxEventID {
		a.events = last(append(a.events, e.ID), maxEvents)
		if a.Sent == nil && a.lastEvent != "" {
			a.Memory.follow(a.peer, a.lastEvent, e.ID)
		}
	}
	switch kind := strings.TrimSpace(e.Type); {
	case len(e.Data) == 0:
	case a.stream.Endpoint() && (e.Split || !a.leads(e.Data)):
		a.cut = errEndpoint()
	case e.IsMessage():
		a.split = e.Split
		if e.Split && (a.Sent == nil || a.Sent.IsCall()) || a.stream.Odd() {
			a.doubt()
		}
		a.message(e.Data)
	case kind == "message", a.mayBeMessage(e.Data): // some clients ignore the type
		a.unread()
	}
	if a.filters && a.cut == nil {
		a.pass(e)
	}
}

func (a *Answer) mayBeMessage(text []byte) bool {
	defer a.Turn(len(text))()
	return mayBeMessage(text)
}

func (a *Answer) message(text []byte) {
	defer a.Turn(len(text))()
	o, err := jsonread.Lenient(text, 3)
	if err != nil || !isTaken(o) || a.status == http.StatusAccepted || a.status == http.StatusResetContent {
		a.doubt() // some clients read no such answer
	}
	a.ignoringStatus(text, o, err)
	switch {
	case err != nil:
		a.blind = true
		if mayBeMessage(text) {
			a.unread()
		}
		return
	case unclear(o):
		a.unread()
		return
	case o.Get("method").Value != nil:
		a.asks(o)
		return
	}
	id, err := readID(o.Get("id").Value)
	a.sendsHuman(o)
	isOwn := err == nil && a.isRequest() && id == a.Sent.ID
	if !isOwn && isAnswer(o) && a.isRequest() && a.stream != nil {
		a.doubt()
	}
	if isOwn {
		a.response(o)
		return
	}
	if _, like, ok := questionID(o.Get("id").Value); ok {
		a.Memory.resembled(a.peer, id, like) // while its own request is known
	}
	if isAnswer(o) && a.Sent == nil {
		a.resumed = append(a.resumed, a.Memory.resume(a.peer, a.lastEvent, id, resultOf(o, true)))
	}
	taken := err == nil && a.Memory.strayed(a.peer, id, isTaken(o) && !a.split)
	a.show(o.Get("result").Members, taken)
}

func (a *Answer) asks(o object) {
	v := o.Get("id").Value
	if v == nil || v.Kind() == 'n' { // a notification
		return
	}
	method, isText := o.Get("method").Text()
	id, like, ok := questionID(v)
	if !ok || !isText {
		a.unread()
		return
	}
	a.ask(question{peer: a.peer, id: id, like: like, asks: map[string]string{"": bounded(method)}})
}

func (a *Answer) ask(q question) {
	if err := a.Memory.ask(q); err != nil {
		a.cut = err
		a.miss()
	}
}
