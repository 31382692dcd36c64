package mcp

import "github.com/actionproof/mediator/proxy/jsonread"

// Result is a request's outcome according to the server's answer.
type Result string

const (
	ResultOK         Result = "ok"
	ResultToolFailed Result = "tool_failed" // the tool reports isError
	ResultError      Result = "error"
	ResultUnfinished Result = "unfinished" // the server wants more, or continues by itself
	ResultLost       Result = "lost"       // the answer broke off before the result
	ResultUnseen     Result = "unseen"     // the answer could not be read, or is of an extension of the protocol
)

// final reports whether the server is done: if it wants more, the client sends a new request.
func (r Result) final() bool {
	return r == ResultOK || r == ResultToolFailed || r == ResultError || r == ResultUnfinished
}

// Result returns "" if the message expects no answer.
func (a *Answer) Result() Result {
	if a.Flight == nil {
		return ""
	}
	result, moved := a.Memory.passed(a.Flight)
	switch {
	case result != "":
		return result
	case a.cut != nil, moved:
		return ResultUnseen
	}
	return ResultLost
}

// Resumable reports whether the result of an answer that had this one may come on a stream: the client can resume the
// answer, or uses the old transport. It may have come meanwhile.
func (a *Answer) Resumable(had Result) bool { return had == ResultLost && a.resumable }

// GiveUp reports whether the client must be told that its request has no result, because the answer does not pass. No
// result passes after that.
func (a *Answer) GiveUp() bool {
	if a.cut == nil || a.Flight == nil {
		return false
	}
	first, _ := a.Memory.settle(a.Flight, ResultUnseen, false, nil) // fails only with a question
	return first
}

// Cut returns why the answer does not pass from some message on; nil if it does.
func (a *Answer) Cut() error { return a.cut }

// respond returns the answer to a request as the client reads it, or nothing if another one has passed.
func (a *Answer) respond(f *Flight, s said) (text []byte, err error) {
	result := s.result.Members
	code := string(s.failed.Members.Get("code").Value)
	does := resultOf(s, f.call)
	var wants *question
	switch {
	case code == byURL:
		wants = &question{of: f.of, asks: map[string]string{"": elicitation}}
	case does == ResultUnfinished:
		wants, err = inputs(f.of, result)
	}
	var tools []tool
	if f.rules != nil && s.result.Value != nil && err == nil {
		tools, s.result.Value, err = list(f.rules, s.result)
	}
	if err != nil {
		return nil, err
	}
	first, err := a.Memory.settle(f, does, result.Get("task").Value != nil, wants)
	if err != nil || !first {
		return nil, err
	}
	a.show(f, tools)
	if a.Returned != nil && f.call && f == a.Flight {
		a.Returned(s.result.Value)
	}
	return s.text(f.id), nil
}

// inputs is what an unfinished result of a request asks the client.
func inputs(of string, result object) (*question, error) {
	state, _ := result.Get("requestState").Text()
	q := &question{of: continued(of, state), asks: make(map[string]string)}
	asks := result.Get("inputRequests").Value
	if asks == nil {
		return q, nil
	}
	requests, err := jsonread.Lenient(asks, 2)
	if err != nil || len(requests) > maxInputs {
		return nil, unread("the server asks for more than %d inputs, or they are no object", maxInputs)
	}
	for _, r := range requests {
		method, isText := r.Members.Get("method").Text()
		if _, _, found := r.Members.OtherCase("method"); found || !isText || len(r.Name) > maxID {
			return nil, unread("the server asks for an input without a method, or by a name of more than %d bytes", maxID)
		}
		q.asks[r.Name] = bounded(method)
	}
	return q, nil
}

func resultOf(s said, call bool) Result {
	result := s.result.Members
	kind, _ := result.Get("resultType").Text()
	switch {
	case s.failed.Value != nil:
		return ResultError
	case kind == "input_required", result.Get("inputRequests").Value != nil, result.Get("requestState").Value != nil,
		call && result.Get("task").Value != nil:
		return ResultUnfinished
	case kind != "" && kind != "complete": // an extension's
		return ResultUnseen
	case call && result.Get("isError").Value.Kind() == 't':
		return ResultToolFailed
	}
	return ResultOK
}
