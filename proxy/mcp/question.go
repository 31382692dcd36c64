package mcp

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/jsonread"
)

// Bounds on the questions that wait for an answer. None is forgotten: the answer that brings one more is cut off.
const (
	maxQuestions    = 128 // of one server
	maxAllQuestions = 512
)

// question is what a server asks its client: by a request of its own, or by what it needs to go on with a request of
// the client (InputRequiredResult, since revision 2026-07-28).
type question struct {
	peer Peer
	id   ID     // by which the client answers; empty where the server gave an id that no client can repeat
	like string // names all ids that some client or server may take for the same
	// the request that goes on, by its method, name and state; empty for a request of the server's own
	of   string
	asks map[string]string // the method of each thing asked, by its key, which is "" for a request of its own
}

// same reports whether two questions cannot be told apart, as when a server repeats one on a resumed stream.
func (q question) same(o question) bool {
	return q.of == "" && o.of == "" && q.peer == o.peer && q.id == o.id && q.like == o.like && q.asks[""] == o.asks[""]
}

// bounded returns a method as it is kept.
func bounded(method string) string { return strings.Clone(method[:min(len(method), maxMethod)]) }

// size is how much a question counts in the bounds.
func (q question) size() int { return max(1, len(q.asks)) }

// ask notes a question before the client sees it, or refuses it if too many wait for an answer.
func (m *Memory) ask(q question) error {
	m.mu.Lock()
	defer m.mu.Unlock()
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
		m.unread.add(q.peer.Server)
		return refusal.New("mcp_answer_unread", "too many questions of the server wait for an answer")
	}
	m.questions = append(m.questions, q)
	return nil
}

// questionID returns the id by which a client answers a request with this id, and what names all ids that may be
// taken for it. It fails for an id that some client may change beyond that.
func questionID(v jsontext.Value) (id ID, like string, ok bool) {
	if v.Kind() == '0' {
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil || math.Abs(f) > maxInteger {
			return "", "", false
		}
		like = strconv.FormatInt(int64(f), 10) // as a client does that has no fractions
		if f == math.Trunc(f) {
			id = ID(like)
		}
		return id, like, true
	}
	id, err := readID(v)
	return id, id.like(), err == nil
}

// like names all ids that may be taken for this one: a text of digits and the number are one.
func (id ID) like() string {
	if v := jsontext.Value(id); v.Kind() == '"' {
		text, _ := member{Value: v}.Text()
		f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || math.Abs(f) > maxInteger {
			return string(id)
		}
		return strconv.FormatInt(int64(f), 10)
	}
	return string(id)
}

// continued names a request that goes on, with the server's state.
func continued(method, name, state string) string {
	return evidence.HashBytes([]byte(strings.Join([]string{method, name, state}, "\x00")))
}

// answers are what a message of a client answers, by the keys of a [question].
type answers map[string]answered

// answered is one answer.
type answered struct {
	result object
	failed member // the error of JSON-RPC in place of a result
}

// answers returns what the message answers. What is no object has the shape of no answer.
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

// answer judges a message by which a client answers questions. It passes if exactly one question waits under its id, or
// under its request, state and keys, and if each answer has the shape of one to it. Anything else may be the answer of
// a human to a question that the server hid from the mediator: it is refused, and the session makes no posts any more.
// The verdict names a rule that lets the answers pass. On an error it says only whether a human may have answered.
func (m *Memory) answer(r *Message, peer Peer, rules []*Rule) (v Verdict, err error) {
	given := r.answers()
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.asked(r, peer, given)
	if i < 0 || m.unread.has(peer.Server) {
		m.prompted = true
		return Verdict{Human: true}, refusal.New("mcp_answer_unasked",
			"the message is not the answer to the one question of the server that waits under its id")
	}
	q := m.questions[i]
	v.answered = &q
	for key := range given {
		if v.Rule, err = mayAnswer(q.asks[key], rules); err != nil {
			return Verdict{}, err
		}
		v.Human = v.Human || q.asks[key] == elicitation
	}
	if v.Human && m.posting() {
		return Verdict{}, errPosting()
	}
	if r.Method == "" && v.Rule < 0 {
		return Verdict{}, refusal.New("mcp_method_refused", "no egress rule lets answers to this server pass")
	}
	m.prompted = m.prompted || v.Human
	m.questions = slices.Delete(m.questions, i, i+1)
	return v, nil
}

// byURL is the code of the error by which a server refuses a request until a human has answered at a URL
// (URLElicitationRequiredError, since revision 2025-11-25). The client then sends the request once more, as it was.
const byURL = -32042

// sendsHuman notes such an error, before the client sees it, as a question that the repeated request answers.
func (a *Answer) sendsHuman(o object) {
	code, err := strconv.ParseFloat(string(o.Get("error").Members.Get("code").Value), 64)
	_, like, ok := questionID(o.Get("id").Value)
	if err != nil || code != byURL || !ok {
		return
	}
	for _, of := range a.Memory.named(a.peer, like) {
		a.ask(question{peer: a.peer, of: of, asks: map[string]string{"": elicitation}})
	}
}

// named returns what names the requests that may be answered now by an id like this one.
func (m *Memory) named(peer Peer, like string) (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.flights {
		if f.peer.same(peer) && f.id.like() == like {
			all = append(all, f.of)
		}
	}
	for _, o := range m.open {
		if o.peer.same(peer) && o.id.like() == like {
			all = append(all, o.of)
		}
	}
	return all
}

// repeats judges a request that goes on with nothing. If the server has sent a human elsewhere before it answers this
// request, the human may have answered meanwhile.
func (m *Memory) repeats(r *Message, peer Peer, rules []*Rule) (human bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := continued(r.Method, r.Name, "")
	sent := func(q question) bool {
		return q.of == of && q.peer.Server == peer.Server && q.asks[""] == elicitation
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
		"the message answers a server with what a human has said, while a post of the session has no result yet")
}

// notSent says that the message of a verdict was not sent: the question that it answers still waits.
func (m *Memory) notSent(v Verdict) {
	if v.answered != nil {
		_ = m.ask(*v.answered) // which fails where the server has asked too much meanwhile: then it counts as unread
	}
}

// asked returns the question that a message answers. It returns -1 if there is none, if different questions may be
// meant, or if the answers have another shape. The caller holds m.mu.
func (m *Memory) asked(r *Message, peer Peer, given answers) int {
	of, found, meant := continued(r.Method, r.Name, r.state), -1, -1
	for i, q := range m.questions {
		switch {
		case r.Method == "" && (q.of != "" || !q.peer.same(peer) || q.like != r.ID.like()):
			continue
		case r.Method != "" && (q.of != of || q.peer.Server != peer.Server || !q.has(given)):
			continue
		case !q.fits(given), meant >= 0 && !q.asksAs(m.questions[meant], given):
			return -1
		}
		meant = i
		if r.Method != "" || q.id == r.ID && q.peer == peer {
			found = i
		}
	}
	return found
}

// has reports whether the question asks for all that is given.
func (q question) has(given answers) bool {
	for key := range given {
		if _, ok := q.asks[key]; !ok {
			return false
		}
	}
	return true
}

// asksAs reports whether another question asks for the same by the keys of what is given.
func (q question) asksAs(o question, given answers) bool {
	for key := range given {
		if q.asks[key] != o.asks[key] {
			return false
		}
	}
	return true
}

// fits reports whether all that is given has the shape of an answer to the question.
func (q question) fits(given answers) bool {
	for key, a := range given {
		if !a.fits(q.asks[key]) {
			return false
		}
	}
	return true
}

// fits reports whether an answer has the shape of one to a method. What a human or a model has said fits nothing else.
// A method that no rule can let pass takes any shape.
func (a answered) fits(method string) bool {
	if a.failed.Value != nil { // the text of an error may be anything
		code := string(a.failed.Members.Get("code").Value)
		return method != ping && method != listRoots || code == "-32601" || code == "-32600" // the client cannot do it
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

// hasOnly reports whether the result has no other members than these, and those that every result may have.
func (a answered) hasOnly(names ...string) bool {
	return !slices.ContainsFunc(a.result, func(m member) bool {
		return m.Name != "_meta" && m.Name != "resultType" && !slices.Contains(names, m.Name)
	})
}

// mayAnswer returns the first rule that lets answers to a method of a server pass; -1 for a harmless one that no rule
// names.
func mayAnswer(method string, rules []*Rule) (int, error) {
	i := slices.IndexFunc(rules, func(r *Rule) bool { return r.answers(method) })
	switch {
	case method == elicitation && i < 0:
		return 0, refusal.New("mcp_answer_refused",
			"the message answers the server with what a human has said, which no rule allows")
	case method == sampling && i < 0:
		return 0, refusal.New("mcp_answer_refused",
			"the message answers the server with what a model has said, which no rule allows")
	case method != elicitation && method != sampling && method != listRoots && method != ping:
		return 0, refusal.New("mcp_method_refused",
			"the message answers a %.128q of the server, which no rule allows", method)
	}
	return i, nil
}
