package mcp

import (
	"github.com/actionproof/mediator/proxy/jsonread"
)

// Result is a request's outcome according to the server's answer.
type Result string

const (
	ResultOK         Result = "ok"
	ResultToolFailed Result = "tool_failed" // the tool reports isError
	ResultError      Result = "error"
	ResultUnfinished Result = "unfinished" // the server wants more, or continues by itself
	ResultLost       Result = "lost"       // the answer broke off before the result
	ResultUnseen     Result = "unseen"     // the answer could not be read
)

// final reports whether the server is done: if it wants more, the client sends a new request.
func (r Result) final() bool {
	return r == ResultOK || r == ResultToolFailed || r == ResultError || r == ResultUnfinished
}

// Result returns "" if the message expects no answer.
func (a *Answer) Result() Result {
	switch {
	case !a.isRequest():
		return ""
	case a.cut != nil, // the piece with the result may not have passed
		a.Memory.answeredElsewhere(a.Flight, true): // which answer the client accepts is unknown
		return ResultUnseen
	case a.result != "":
		return a.result
	case a.blind:
		return ResultUnseen
	}
	return ResultLost
}

// Resumable reports whether the client can resume the broken answer.
func (a *Answer) Resumable() bool { return a.Result() == ResultLost && len(a.events) > 0 }

// Clients accept only the first result, but all definitions are noted.
func (a *Answer) response(o object) {
	result := o.Get("result").Members
	first := a.result == ""
	if a.Sent.Method == listTools {
		a.show(result, first && !a.Memory.answeredElsewhere(a.Flight, false))
	}
	if !first {
		return
	}
	a.result = resultOf(o, a.Sent.IsCall())
	a.Memory.settle(a.Flight, a.result, a.result == ResultUnfinished && result.Get("task").Value != nil)
	if a.Returned != nil && a.Sent.IsCall() {
		a.Returned(o.Get("result").Value)
	}
	if a.result != ResultUnfinished {
		return
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

func resultOf(o object, call bool) Result {
	result, failure := o.Get("result"), o.Get("error")
	kind, _ := result.Members.Get("resultType").Text()
	failed := result.Members.Get("isError").Value
	switch {
	case !isTaken(o): // clients differ
		return ResultUnseen
	case result.Value == nil && failure.Value.Kind() == '{':
		return ResultError
	case failure.Value != nil || result.Value.Kind() != '{':
		return ResultUnseen
	case kind == "input_required", result.Members.Get("inputRequests").Value != nil,
		result.Members.Get("requestState").Value != nil,
		call && result.Members.Get("task").Value != nil:
		return ResultUnfinished
	case kind != "" && kind != "complete": // an extension's
		return ResultUnseen
	case call && failed.Kind() == 't':
		return ResultToolFailed
	case call && failed != nil && failed.Kind() != 'f' && failed.Kind() != 'n': // some clients take it for true
		return ResultUnseen
	}
	return ResultOK
}
