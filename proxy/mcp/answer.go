package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/proxy/jsonread"
	"github.com/actionproof/mediator/proxy/sse"
)

// Result is what became of a request, by the server's answer.
type Result string

// The results.
const (
	ResultOK         Result = "ok"
	ResultToolFailed Result = "tool_failed" // isError: the tool says that it failed
	ResultError      Result = "error"       // a JSON-RPC error
	ResultUnfinished Result = "unfinished"  // the server wants more, or goes on by itself
	ResultLost       Result = "lost"        // the answer broke off before the result
	ResultUnseen     Result = "unseen"      // the answer could not be followed
)

// final reports whether the server is done with a request that has this result: with one to which it wants more, too,
// which comes as a new one.
func (r Result) final() bool {
	return r == ResultOK || r == ResultToolFailed || r == ResultError || r == ResultUnfinished
}

// maxAnswer bounds how much of one message of a server is held to be read, in bytes.
const maxAnswer = 4 << 20

// maxEvents is how many ids of events are kept, of the last ones.
const maxEvents = 32

// maxEventID bounds the id of an event that is kept, in bytes.
const maxEventID = 256

// Watch is what an [Answer] is read for.
type Watch struct {
	Sent   *Message // nil for an event stream that the client opens
	Flight *Flight  // of Sent; nil where it asks for no answer
	Header http.Header
	Peer   Peer
	Memory *Memory
	Shared *Definitions
	Rules  []*Rule // of the endpoint
	// Take asks for n more bytes of memory. What it does not get it cannot follow.
	Take func(n int) bool
	// Free gives back what Take has given.
	Free func()
	// Changed is called for each tool whose definition has another hash than the one that was shown before, in this
	// session or in another, or than the one that is pinned.
	Changed func(tool, before, now string)
	// Returned, if set, is called with the result of a tool's call, as JSON.
	Returned func(result []byte)
}

// Answer reads the answer to one request as it passes: an [io.Writer] that takes what the client gets. It notes in the
// session's memory what the server asks and shows. It is not safe for concurrent use.
type Answer struct {
	Watch
	peer      Peer   // with the session that the server has given by this answer
	lastEvent string // by which the client resumes an answer

	json   bool
	length int // of the answer, as its header says; less than 0 where it does not
	stream *sse.Reader
	held   []byte
	result Result
	status int
	blind  bool     // some of the answer was not read
	cut    error    // why no more of the answer may pass
	events []string // ids of the last events
}

// NewAnswer begins to read an answer by its status and its header.
func NewAnswer(w Watch, status int, header http.Header) *Answer {
	a := &Answer{Watch: w, peer: w.Peer, lastEvent: w.Header.Get("Last-Event-Id"), status: status}
	if given := header.Get("Mcp-Session-Id"); given != "" && a.Sent != nil && a.Sent.Method == initialize {
		a.peer.Session = given
	}
	failed, redirected := status >= http.StatusBadRequest, status/100 == 3
	if failed && a.isRequest() {
		a.result = ResultError
	}
	encoding := strings.Join(header["Content-Encoding"], ", ")
	plain := encoding == "" || encoding == "identity"
	said := strings.ToLower(strings.Join(header["Content-Type"], ", "))
	kind, params, err := mime.ParseMediaType(said)
	if c := params["charset"]; err != nil || c != "" && c != "utf-8" && c != "utf8" { // some clients decode by it
		plain = false
	}
	stream := kind == "text/event-stream"
	text := kind == "application/json" && a.Sent != nil // some clients read a GET's answer as a stream, whatever its type
	meant := a.Sent != nil && (strings.Contains(said, "/event-stream") || strings.Contains(said, "application/json"))
	awaited := a.Sent == nil || a.isRequest() && status != http.StatusAccepted
	switch {
	case stream && plain:
		a.stream = sse.NewReader(maxAnswer)
	case text && plain:
		a.json, a.length = true, -1
		if n, err := strconv.Atoi(header.Get("Content-Length")); err == nil {
			a.length = n
		}
	case stream, meant, redirected, awaited && !failed && status != http.StatusNoContent:
		a.lose()
	}
	return a
}

// isRequest reports whether the answer is to a request, and not a stream that the client has opened.
func (a *Answer) isRequest() bool { return a.Sent != nil && a.Sent.IsRequest() }

// Close ends the reading, and gives back the memory that it took.
func (a *Answer) Close() {
	a.json, a.stream, a.held = false, nil, nil
	a.Free()
}

// lose gives up to follow the answer.
func (a *Answer) lose() {
	a.json, a.stream, a.held = false, nil, nil
	a.miss()
}

// miss says that a message of the answer was not read.
func (a *Answer) miss() {
	a.blind = true
	a.Memory.missed(a.peer.Server)
}

// Write takes a piece of the answer, and never waits. It fails if the piece may not pass: the server asks too much.
func (a *Answer) Write(p []byte) (int, error) {
	switch {
	case a.cut != nil:
	case a.json && len(a.held) == 0 && len(p) == a.length: // nothing has to be held of an answer that comes in one piece
		a.json = false
		a.message(p)
	case a.json && (len(a.held)+len(p) > maxAnswer || !a.Take(len(p))):
		a.lose()
	case a.json:
		// a client may go on before the end of the connection's answer is read here
		if a.held = append(a.held, p...); len(a.held) == a.length {
			a.json = false
			a.message(a.held)
		}
	case a.stream != nil:
		before := a.stream.Held()
		a.stream.Write(p, a.event)
		if a.stream.Odd() {
			a.miss()
		}
		if after := a.stream.Held(); a.stream.Over() || after > before && !a.Take(after-before) {
			a.lose()
		}
	}
	if a.cut != nil {
		return 0, a.cut
	}
	return len(p), nil
}

// End says how the answer has ended: by [io.EOF] as a whole.
func (a *Answer) End(err error) {
	switch {
	case a.json && errors.Is(err, io.EOF) && (len(a.held) > 0 || a.status != http.StatusAccepted):
		a.message(a.held)
	case a.json:
		a.rest(a.held)
	case a.stream != nil:
		a.rest(a.stream.End())
		if a.stream.Odd() {
			a.miss()
		}
	}
	a.held = nil
}

// rest reads a message whose end was not seen. Some clients take it nevertheless if it is whole.
func (a *Answer) rest(text []byte) {
	o, err := jsonread.Lenient(text, 3)
	switch {
	case err != nil && json.Valid(text), err == nil && unclear(o):
		a.miss()
	case err == nil && o.Get("method").Value != nil:
		a.asks(o)
	case err == nil:
		a.show(o.Get("result").Members, false)
	}
}

// Result returns what became of the request; it is empty for a message that asks for no answer.
func (a *Answer) Result() Result {
	switch {
	case !a.isRequest():
		return ""
	case a.Memory.answeredElsewhere(a.Flight): // and which of the two the client takes is not known
		return ResultUnseen
	case a.result != "":
		return a.result
	case a.blind:
		return ResultUnseen
	}
	return ResultLost
}

// Followed reports whether all messages of the answer were read until now.
func (a *Answer) Followed() bool { return !a.blind }

// Resumable reports whether the client can ask for the rest of an answer that broke off.
func (a *Answer) Resumable() bool { return a.Result() == ResultLost && len(a.events) > 0 }

func (a *Answer) event(e sse.Event) {
	if e.ID != "" && len(e.ID) <= maxEventID {
		a.events = last(append(a.events, e.ID), maxEvents)
		if a.Sent == nil && a.lastEvent != "" {
			a.Memory.follow(a.peer, a.lastEvent, e.ID)
		}
	}
	switch {
	case len(bytes.TrimSpace(e.Data)) == 0:
	case e.Type == "" || e.Type == "message":
		a.message(e.Data)
	case strings.TrimSpace(e.Type) == "message", mayBeMessage(e.Data): // of any type: which some clients do not look at
		a.miss()
	}
}

// message reads one message of the server.
func (a *Answer) message(text []byte) {
	o, err := jsonread.Lenient(text, 3)
	if err != nil {
		a.blind = true
		if mayBeMessage(text) {
			a.miss()
		}
		return
	}
	switch {
	case unclear(o):
		a.miss()
		return
	case o.Get("method").Value != nil:
		a.asks(o)
		return
	}
	id, err := readID(o.Get("id").Value)
	a.sendsHuman(o)
	if err == nil && a.isRequest() && id == a.Sent.ID {
		a.response(o)
		return
	}
	taken := err == nil && a.Memory.strayed(a.peer, id)
	if _, like, ok := questionID(o.Get("id").Value); ok {
		a.Memory.resembled(a.peer, id, like)
	}
	a.show(o.Get("result").Members, taken)
	if err == nil && a.Sent == nil {
		a.Memory.resume(a.peer, a.lastEvent, id, resultOf(o, true))
	}
}

// asks notes a request of the server, by which it may be answered.
func (a *Answer) asks(o object) {
	v := o.Get("id").Value
	if v == nil || v.Kind() == 'n' { // a notification
		return
	}
	method, isText := o.Get("method").Text()
	id, like, ok := questionID(v)
	if !ok || !isText {
		a.miss()
		return
	}
	a.ask(question{peer: a.peer, id: id, like: like, asks: map[string]string{"": bounded(method)}})
}

// ask notes a question. The answer is cut off where there are too many.
func (a *Answer) ask(q question) {
	if err := a.Memory.ask(q); err != nil {
		a.cut = err
		a.miss()
	}
}

// response reads a result of the request. The first one counts, which a client takes; but all definitions are noted.
func (a *Answer) response(o object) {
	result := o.Get("result").Members
	first := a.result == ""
	if a.Sent.Method == listTools {
		a.show(result, first && a.Memory.takes(a.Flight))
	}
	if !first {
		return
	}
	a.result = resultOf(o, a.Sent.IsCall())
	a.Memory.settle(a.Flight, a.result)
	if a.Returned != nil && a.Sent.IsCall() {
		a.Returned(o.Get("result").Value)
	}
	if a.result != ResultUnfinished {
		return
	}
	if result.Get("task").Value != nil {
		a.Memory.goesOn(a.Flight)
	}
	state, _ := result.Get("requestState").Text()
	q := question{peer: a.peer, of: continued(a.Sent.Method, a.Sent.Name, state), asks: make(map[string]string)}
	if asks := result.Get("inputRequests").Value; asks != nil {
		requests, err := jsonread.Lenient(asks, 2)
		if err != nil || len(requests) > maxInputs {
			a.miss()
			return
		}
		for _, r := range requests {
			if _, _, found := r.Members.OtherCase("method"); found || len(r.Name) > maxID {
				a.miss()
				return
			}
			method, _ := r.Members.Get("method").Text()
			q.asks[r.Name] = bounded(method)
		}
	}
	a.ask(q)
}

// resultOf reads what became of a request, which may be the call of a tool.
func resultOf(o object, call bool) Result {
	result := o.Get("result")
	kind, _ := result.Members.Get("resultType").Text()
	failed := result.Members.Get("isError").Value
	switch {
	case o.Get("error").Value != nil:
		return ResultError
	case result.Value == nil:
		return ResultUnseen
	case kind == "input_required", result.Members.Get("inputRequests").Value != nil,
		result.Members.Get("requestState").Value != nil,
		call && result.Members.Get("task").Value != nil:
		return ResultUnfinished
	case kind != "" && kind != "complete": // of an extension
		return ResultUnseen
	case call && failed.Kind() == 't':
		return ResultToolFailed
	case call && failed != nil && failed.Kind() != 'f' && failed.Kind() != 'n': // which some clients take for true
		return ResultUnseen
	}
	return ResultOK
}

// show notes the definitions of tools in a result. taken says that the client takes it for the list that it asked for.
func (a *Answer) show(result object, taken bool) {
	tools := result.Get("tools").Value
	if tools == nil || tools.Kind() != '[' {
		return
	}
	dec := jsontext.NewDecoder(bytes.NewReader(tools))
	if _, err := dec.ReadToken(); err != nil {
		return
	}
	for dec.PeekKind() != ']' {
		raw, err := dec.ReadValue()
		if err != nil {
			a.miss()
			return
		}
		tool, now, err := define(raw)
		switch {
		case err != nil && tool == "":
			a.miss()
			continue
		case !isToolName(tool):
			continue // which no rule can name
		}
		if err != nil {
			now = definition{}
		}
		named := slices.ContainsFunc(a.Rules, func(r *Rule) bool { return slices.Contains(r.Tools, tool) })
		before := a.Memory.show(a.peer.tools(), tool, now, named, taken)
		if elsewhere := a.Shared.show(a.peer.Server, tool, now, named); before == "" {
			before = elsewhere
		}
		for _, r := range a.Rules {
			before = cmp.Or(r.Pin[tool], before)
		}
		if before != "" && before != now.hash {
			a.Changed(tool, before, now.hash)
		}
	}
}
