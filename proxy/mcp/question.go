package mcp

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/jsonread"
)

// No open question is ever forgotten: one too many cuts off the answer that asks it.
const (
	maxQuestions    = 128 // by one server
	maxAllQuestions = 512
)

// question is a server's request to its client, or a condition for continuing the client's request
// (InputRequiredResult, since revision 2026-07-28).
type question struct {
	peer Peer
	id   ID
	// the request to continue: see [continued]; empty for a server's own request
	of   string
	asks map[string]string // each part's method by its key; "" for a server's own request
}

func (q question) same(o question) bool {
	return q.of == "" && o.of == "" && q.peer == o.peer && q.id == o.id && q.asks[""] == o.asks[""]
}

func bounded(method string) string { return strings.Clone(method[:min(len(method), maxMethod)]) }

func (q question) size() int { return max(1, len(q.asks)) }

// ask comes before the client sees the question. It refuses one too many.
func (m *Memory) ask(q question) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(q)
}

// put is [Memory.ask] for a caller that holds m.mu.
func (m *Memory) put(q question) error {
	if slices.ContainsFunc(m.questions, q.same) {
		return nil
	}
	own, all := q.size(), q.size()
	for _, o := range m.questions {
		all += o.size()
		if o.peer.Server == q.peer.Server {
			own += o.size()
		}
	}
	if own > maxQuestions || all > maxAllQuestions {
		return unread("the server has too many unanswered questions")
	}
	m.questions = append(m.questions, q)
	return nil
}

// continued identifies what a client sends to continue a request, by the state that the server gave it; without one it
// repeats the request.
func continued(of, state string) string {
	if state == "" {
		return of
	}
	return evidence.HashBytes([]byte(of + state))
}

type answers map[string]answered

type answered struct {
	result object
	failed member // a JSON-RPC error instead of a result
}

// Only an object can have an answer's shape.
func (m *Message) answers() answers {
	if m.Method == "" {
		return answers{"": {m.result.Members, m.failed}}
	}
	all := make(answers, len(m.inputs))
	for _, r := range m.inputs {
		o, _ := jsonread.Lenient(r.Value, 1)
		all[r.Name] = answered{result: o}
	}
	return all
}

// answer judges a message that answers questions. It passes only if exactly one open question has its id, or its
// request, state and keys, and each answer has that question's shape. Anything else may be a human's answer to a
// question that the server hid from the mediator: it is refused, and the session makes no more posts. The verdict names
// a rule that allows the answers. With an error, it tells only whether a human may have answered.
func (m *Memory) answer(r *Message, peer Peer, rules []*Rule) (v Verdict, err error) {
	given := r.answers()
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.asked(r, peer, given)
	if i < 0 {
		m.prompted = true
		return Verdict{Human: true}, refusal.New("mcp_answer_unasked",
			"the mediator cannot tell which open question of the server the message answers, if any")
	}
	q := m.questions[i]
	v.answered = &q
	for key := range given {
		if v.Rule, err = mayAnswer(q.asks[key], rules); err != nil {
			return Verdict{}, err
		}
		v.Human = v.Human || given[key].byHuman(q.asks[key])
	}
	if v.Human && m.posting() {
		return Verdict{}, errPosting()
	}
	if r.Method == "" && v.Rule < 0 {
		return Verdict{}, refusal.New("mcp_method_refused", "no egress rule allows answers to this server")
	}
	m.prompted = m.prompted || v.Human
	m.questions = slices.Delete(m.questions, i, i+1)
	return v, nil
}

// byURL is the error code with which a server refuses a request until a human answers at a URL (since revision
// 2025-11-25). The client then repeats the request.
const byURL = "-32042"

// repeats judges a request that may repeat one refused with byURL: a human may have answered since.
func (m *Memory) repeats(r *Message, rules []*Rule) (human bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := requestOf(r)
	sent := func(q question) bool { // its server may have sent the client elsewhere
		return q.of == of && q.asks[""] == elicitation
	}
	if !slices.ContainsFunc(m.questions, sent) {
		return false, nil
	}
	if _, err := mayAnswer(elicitation, rules); err != nil {
		return false, err
	}
	if m.posting() {
		return false, errPosting()
	}
	m.prompted, m.questions = true, slices.DeleteFunc(m.questions, sent)
	return true, nil
}

func errPosting() error {
	return refusal.New("mcp_answer_refused",
		"the message carries a human's answer while a post of the session has no result yet")
}

// asked returns the index of the question that a message answers, or -1 for none, if several different questions fit,
// or if an answer has the wrong shape. The caller holds m.mu.
func (m *Memory) asked(r *Message, peer Peer, given answers) int {
	of, found := continued(requestOf(r), r.state), -1
	for i, q := range m.questions {
		switch {
		case r.Method == "" && (q.of != "" || q.peer != peer || q.id != r.ID):
			continue
		case r.Method != "" && (q.of != of || q.peer.Server != peer.Server || !q.has(given)):
			continue
		case !q.fits(given), found >= 0 && !q.asksAs(m.questions[found], given):
			return -1
		}
		found = i
	}
	return found
}

func (g answers) all(ok func(key string, a answered) bool) bool {
	for key, a := range g {
		if !ok(key, a) {
			return false
		}
	}
	return true
}

func (q question) has(given answers) bool {
	return given.all(func(key string, _ answered) bool { _, ok := q.asks[key]; return ok })
}

func (q question) asksAs(o question, given answers) bool {
	return given.all(func(key string, _ answered) bool { return q.asks[key] == o.asks[key] })
}

func (q question) fits(given answers) bool {
	return given.all(func(key string, a answered) bool { return a.fits(q.asks[key]) })
}

// A human's or a model's answer fits only its own method. Methods that no rule can allow accept any shape.
func (a answered) fits(method string) bool {
	if a.failed.Value != nil { // an error's text may say anything
		code := string(a.failed.Members.Get("code").Value)
		// the client does not support it
		return method != ping && method != listRoots || code == "-32601" || code == "-32600"
	}
	is := func(name string, kind jsontext.Kind) bool { return a.result.Get(name).Value.Kind() == kind }
	switch method {
	case elicitation:
		action, _ := a.result.Get("action").Text()
		return slices.Contains([]string{"accept", "decline", "cancel"}, action)
	case sampling:
		return is("model", '"') && is("role", '"') &&
			a.result.Get("content").Value != nil && a.result.Get("action").Value == nil
	case listRoots:
		return is("roots", '[') && a.hasOnly("roots")
	case ping:
		return a.result != nil && a.hasOnly()
	}
	return true
}

func (a answered) byHuman(method string) bool {
	const rejected = "-1" // the code by which a human refuses a server a model's answer
	return method == elicitation || method == sampling && string(a.failed.Members.Get("code").Value) == rejected
}

// hasOnly allows those that every result may have.
func (a answered) hasOnly(names ...string) bool {
	return !slices.ContainsFunc(a.result, func(m member) bool {
		return m.Name != "_meta" && m.Name != "resultType" && !slices.Contains(names, m.Name)
	})
}

// mayAnswer returns the first rule that allows answers to a server's method, or -1 if it is harmless and needs none.
func mayAnswer(method string, rules []*Rule) (int, error) {
	i := slices.IndexFunc(rules, func(r *Rule) bool { return r.answers(method) })
	switch {
	case method == elicitation && i < 0:
		return 0, refusal.New("mcp_answer_refused",
			"the message carries a human's answer, which no rule allows")
	case method == sampling && i < 0:
		return 0, refusal.New("mcp_answer_refused",
			"the message carries a model's answer, which no rule allows")
	case method != elicitation && method != sampling && method != listRoots && method != ping:
		return 0, refusal.New("mcp_method_refused",
			"the message answers the server's request %.128q, and no rule can allow that", method)
	}
	return i, nil
}
