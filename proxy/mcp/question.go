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

// No open question is ever forgotten: one too many cuts off the answer that asks it.
const (
	maxQuestions    = 128 // by one server
	maxAllQuestions = 512
)

// question is a server's request to its client, or a condition for continuing the client's request
// (InputRequiredResult, since revision 2026-07-28).
type question struct {
	peer Peer
	id   ID     // of the client's answer; empty if no client can repeat the server's id
	like string // the same for all ids that may be taken for this one
	// the request to continue, by method, name and state; empty for a server's own request
	of   string
	asks map[string]string // each part's method by its key; "" for a server's own request
}

func (q question) same(o question) bool {
	return q.of == "" && o.of == "" && q.peer == o.peer && q.id == o.id && q.like == o.like && q.asks[""] == o.asks[""]
}

func bounded(method string) string { return strings.Clone(method[:min(len(method), maxMethod)]) }

func (q question) size() int { return max(1, len(q.asks)) }

// ask comes before the client sees the question. It refuses one too many.
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
		return refusal.New("mcp_answer_unread", "the server has too many unanswered questions")
	}
	m.questions = append(m.questions, q)
	return nil
}

// questionID returns the id of a client's answer to a request with this id, and what all ids share that may be taken
// for it. It fails for an id that a client may change in other ways.
func questionID(v jsontext.Value) (id ID, like string, ok bool) {
	if v.Kind() == '0' {
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil || math.Abs(f) > maxInteger {
			return "", "", false
		}
		like = strconv.FormatInt(int64(f), 10) // as clients without fractions read it
		if f == math.Trunc(f) {
			id = ID(like)
		}
		return id, like, true
	}
	id, err := readID(v)
	return id, id.like(), err == nil
}

// like maps ids that may be confused to one value: a text of digits and its number are the same.
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

func continued(method, name, state string) string {
	return evidence.HashBytes([]byte(strings.Join([]string{method, name, state}, "\x00")))
}

func (id ID) isText() bool { return strings.HasPrefix(string(id), `"`) }

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
	if i < 0 || m.unread.has(peer.Server) {
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
const byURL = -32042

// sendsHuman notes such an error as a question, answered by repeating the request. Even under another id, some clients
// take it for the error of the request whose answer it is in, and on a resumed stream for that of any broken one.
func (a *Answer) sendsHuman(o object) {
	said := o.Get("error").Members.Get("code")
	text, isText := said.Text() // some clients take a text for the number
	if !isText {
		text = string(said.Value)
	}
	if code, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err != nil || code != byURL {
		return
	}
	id := o.Get("id").Value
	resumes := a.Sent == nil && a.lastEvent != ""
	for _, f := range a.Memory.flying(a.peer, func(f *Flight, others []*Flight) bool {
		return resumes || f == a.Flight || f.mayBe(id, others)
	}) {
		a.ask(question{peer: f.peer, of: f.of, asks: map[string]string{"": elicitation}})
	}
}

func (m *Memory) flying(peer Peer, which func(f *Flight, all []*Flight) bool) (found []*Flight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.flights {
		if f.of != "" && f.peer.origin() == peer.origin() && which(f, m.flights) {
			found = append(found, f)
		}
	}
	return found
}

// mayBe reports whether some client may take an answer with this id for the request's, if all are open. They read texts
// as numbers, even such as "0x1".
func (f *Flight) mayBe(v jsontext.Value, all []*Flight) bool {
	id, like, ok := questionID(v)
	if !ok || f.id == "" || f.id.like() == like {
		return ok
	}
	return id.isText() && !f.id.isText() && !slices.ContainsFunc(all, func(o *Flight) bool { return o.id == id })
}

// repeats judges a request that may repeat one refused with byURL: a human may have answered since. If only an unread
// message may have refused it, the request passes, and the session makes no more posts.
func (m *Memory) repeats(r *Message, peer Peer, rules []*Rule) (human bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	repeated := Flight{peer: peer, of: continued(r.Method, r.Name, "")}
	sent := func(q question) bool {
		return q.of == repeated.of && q.asks[""] == elicitation // its server may have sent the client elsewhere
	}
	asked := slices.ContainsFunc(m.questions, sent)
	if !asked && !m.doubtful.has(repeated.request()) {
		return false, nil
	}
	if asked {
		if _, err := mayAnswer(elicitation, rules); err != nil {
			return false, err
		}
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
