package inference

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"hash"
	"net/http"
	"reflect"
	"slices"
	"strings"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/proxy/inference/members"
	"github.com/actionproof/mediator/proxy/jsonread"
	"github.com/actionproof/mediator/proxy/sse"
)

const (
	maxSaid      = 256      // blocks
	maxStops     = 128      // choices
	maxArguments = 64 << 10 // bytes of a call's arguments, which are hashed when they are complete
)

// bytesPerToken is for estimates. English text has about 4.
const bytesPerToken = 4

// reader reads an API's answers: an event of a stream, or an answer that is no stream. Both functions report whether
// the text follows the API.
type reader struct {
	event, whole func(t *tally, data []byte) bool
	// unended: an answer that is no stream may say that it goes on.
	unended bool
	// done: the event [DONE] is the end of a stream.
	done bool
}

var readers = map[Dialect]reader{
	OpenAIChat:        {event: readChat, whole: readChat, done: true},
	OpenAICompletions: {event: readChat, whole: readChat, done: true},
	OpenAIEmbeddings:  {event: readChat, whole: readChat, done: true},
	OpenAIResponses:   {event: readResponseEvent, whole: readResponse},
	AnthropicMessages: {event: readMessageEvent, whole: readMessage},
	Gemini:            {event: readGemini, whole: readGeminiWhole, unended: true},
	BedrockConverse:   {event: readConverseEvent, whole: readConverse},
	OllamaChat:        {event: readOllama, whole: readOllama, unended: true},
}

type position struct {
	choice, item, part int
	kind               Kind
}

type said struct {
	at        position
	block     Block
	mac       hash.Hash // of a text
	words     wordCount
	arguments []byte // of a call
	tooLarge  bool
	done      bool // of the responses API
}

// tally belongs to one goroutine at a time.
type tally struct {
	in  *Interaction
	key []byte
	now piece // being read

	blocks []*said
	// unclear: some blocks were not kept, or clients divide the answer differently.
	unclear bool
	kept    int    // memory of arguments, in bytes
	bytes   int    // of text
	event   int    // of text in the current event
	named   string // the current event's type
	hosted  int
	ended   bool // the API's own end has come
	closed  bool // most clients read no further
	stream  bool
	said    func(k Kind, text string) // gets the first choice's text; may be nil

	// Only for a measured call.
	measure   *Measure
	transport hash.Hash // of the body's bytes
	wanted    int       // bytes of the sample
}

func (t *tally) doubt(is bool) { t.unclear = t.unclear || is }

func (t *tally) readEvent(e sse.Event) bool {
	dialect := t.in.Request.Dialect
	switch {
	case len(e.Data) == 0:
		t.doubt(e.ID == "" || dialect == Gemini) // official clients take an empty text for malformed JSON
		return true
	case bytes.HasPrefix(e.Data, []byte("[DONE]")): // compatible servers send it in every API
		t.closed, t.ended = true, t.ended || readers[dialect].done
		return true
	case t.closed:
		t.unclear = true
		return true
	}
	t.named = e.Type
	t.doubt(strings.HasPrefix(e.Type, "thread.")) // official clients wrap its data
	t.doubt(dialect == Gemini && !e.Plain)
	ended, blocks := t.ended, len(t.blocks)
	ok := jsontext.Value(e.Data).Kind() == '{' && !jsonread.Exceeds(e.Data) && readers[dialect].event(t, e.Data)
	t.doubt(ended && (t.event > 0 || len(t.blocks) > blocks))
	t.endEvent()
	return ok
}

// decode reads an answer, or a part of one. Some clients ignore the case of names, or take both of Google's spellings:
// an answer that says something else to them is unclear.
func decode[T any](t *tally, data []byte, to *T) bool {
	if json2.Unmarshal(data, to) != nil {
		return false
	}
	var other T
	err := json2.Unmarshal(data, &other, json2.MatchCaseInsensitiveNames(true))
	t.doubt(err != nil || !reflect.DeepEqual(*to, other))
	return true
}

func (t *tally) readWhole(body []byte) bool {
	by := readers[t.in.Request.Dialect]
	t.ended = !by.unended
	ok := !jsonread.Exceeds(body) && by.whole(t, body)
	t.endEvent()
	return ok
}

// ReadAnswer reads an answer to r that is one JSON text. said gets each piece of text of the first choice. ok reports
// whether the answer follows its API. For key see [Read].
func ReadAnswer(r *Request, body, key []byte, said func(k Kind, text string)) (in Interaction, ok bool) {
	in.Request = r
	t := tally{in: &in, key: key, said: said}
	ok = t.readWhole(body)
	t.conclude(ReasonNone)
	return in, ok
}

// find begins a block if necessary. It returns nil if there are too many.
func (t *tally) find(at position) *said {
	for i := len(t.blocks) - 1; i >= 0; i-- {
		if t.blocks[i].at == at {
			return t.blocks[i]
		}
	}
	if len(t.blocks) == maxSaid {
		t.unclear = true
		return nil
	}
	s := &said{at: at, block: Block{Kind: at.kind}}
	if at.kind != KindCall {
		s.mac = newMAC(t.key, at.kind.domain())
	}
	t.blocks = append(t.blocks, s)
	return s
}

func (t *tally) text(at position, text string) {
	if text == "" {
		return
	}
	t.event += len(text)
	if t.said != nil && at.choice == 0 {
		t.said(at.kind, text)
	}
	if s := t.find(at); s != nil {
		s.block.Size += len(text)
		s.mac.Write([]byte(text))
		if t.measure != nil {
			s.words.add(text)
			if more := t.wanted - len(t.in.Sample); at.choice == 0 && more > 0 { // a stream mixes those of several choices
				t.in.Sample = append(t.in.Sample, text[:min(len(text), more)]...)
			}
		}
	}
}

func (t *tally) call(at position, id, name, arguments string) {
	at.kind = KindCall
	s := t.find(at)
	t.event += len(arguments)
	if s == nil {
		return
	}
	if s.block.ID == "" {
		s.block.ID = idOf(t.key, id)
	}
	if s.block.Name == "" {
		s.block.Name = members.NameOf(name)
	}
	s.block.Size += len(arguments)
	if s.tooLarge = s.tooLarge || len(s.arguments)+len(arguments) > maxArguments; s.tooLarge {
		s.arguments = nil
		return
	}
	before := cap(s.arguments)
	s.arguments = append(s.arguments, arguments...)
	t.kept += cap(s.arguments) - before
}

// made notes the id of something that the provider keeps because of this answer.
func (t *tally) made(id string) {
	if t.in.Status < http.StatusMultipleChoices {
		t.in.Request.kept.Add(t.in.Request.host, id)
	}
}

// namesNoCalls reports whether the API may give calls no ids.
func (d Dialect) namesNoCalls() bool { return d == Gemini || d == OllamaChat }

// callID names a call that has no id. Equal calls have the same name.
func callID(key []byte, name, arguments string) string {
	hash := hashOf(key, KindCall, []byte(name+"\x00"+arguments))
	return hex.EncodeToString(hash[:16])
}

func (t *tally) held() int { return cap(t.in.Sample) + t.kept }

// An event of a stream is one delta if it has text.
func (t *tally) endEvent() {
	if t.event == 0 {
		return
	}
	t.bytes += t.event
	if t.stream {
		if t.in.Deltas.Value == 0 {
			t.in.First = t.now.at
		}
		t.in.Ready = t.now.at.Add(-t.now.waited)
		t.in.Deltas.Value++
	}
	t.event = 0
}

func (t *tally) stop(choice int, reason string) {
	if reason = members.NameOf(reason); reason != "" && len(t.in.Stops) < maxStops {
		t.in.Stops = append(t.in.Stops, Stop{choice, reason})
	}
}

func (t *tally) model(name string) {
	if t.in.Model == "" {
		t.in.Model = members.NameOf(name)
	}
}

func (t *tally) has(at position) bool {
	return slices.ContainsFunc(t.blocks, func(s *said) bool { return s.at == at })
}

func (t *tally) failure(v jsontext.Value) {
	t.in.Outcome, t.closed = OutcomeFailed, true
	t.in.Error = cmp.Or(t.in.Error, ErrorCode(v))
}

// ErrorCode returns the code of a provider's error, or else its type, if it looks like a name.
func ErrorCode(v jsontext.Value) string {
	var e struct {
		Type jsontext.Value `json:"type"`
		Code jsontext.Value `json:"code"`
		// of Google, whose code is a number
		Status jsontext.Value `json:"status"`
	}
	if v.Kind() != '{' || json2.Unmarshal(v, &e) != nil {
		return ""
	}
	for _, name := range []jsontext.Value{e.Code, e.Type, e.Status} {
		if name.Kind() == '"' && members.NameOf(textOf(name)) != "" {
			return textOf(name)
		}
	}
	return ""
}

var unmeasured interaction.Figure

func estimate(bytes int) interaction.Figure {
	return interaction.Estimated(int64(bytes+bytesPerToken-1) / bytesPerToken)
}

func (t *tally) conclude(lost string) {
	in := t.in
	for _, s := range t.blocks {
		switch {
		case s.mac != nil:
			s.mac.Sum(s.block.Hash[:0])
		case s.block.ID == "" && s.block.Name == "":
			t.unclear = true // some clients drop it
		case !s.tooLarge:
			arguments := canonical(string(s.arguments))
			if in.Request.Dialect.namesNoCalls() {
				t.made(s.block.ID)
				s.block.ID = cmp.Or(s.block.ID, callID(t.key, s.block.Name, arguments))
			}
			s.block.Hash = hashOf(t.key, KindCall, []byte(arguments))
			if t.measure != nil {
				s.block.Measured = &Measured{Values: t.measure.ValuesOf(arguments)}
			}
		}
		if t.measure != nil && s.mac != nil {
			s.block.Measured = &Measured{Words: s.words.n}
		}
		in.Said = append(in.Said, s.block)
	}
	t.blocks = nil
	in.Reason = lost
	if lost != ReasonNone {
		in.unread()
		return
	}
	in.SaidAll, in.SaidBytes = !t.unclear, t.bytes
	if t.transport != nil {
		t.transport.Sum(in.Transport[:0])
	}
	in.HostedCalls = interaction.Declared(int64(t.hosted)) // the answer shows what the provider likes
	if t.stream {
		in.Deltas.State = interaction.StateObserved
	}
	if in.Outcome == "" {
		in.Outcome = OutcomeComplete
		if !t.ended {
			in.Outcome = OutcomeCut
		}
	}
	if in.Status >= http.StatusMultipleChoices { // clients take it for no answer
		in.Outcome, in.Said, in.SaidAll, in.SaidBytes, in.Sample = OutcomeFailed, nil, false, 0, nil
		return
	}
	if in.Outcome == OutcomeCut { // figures declared before a cut are incomplete
		in.Output, in.Reasoning = unmeasured, unmeasured
	}
	if in.Outcome != OutcomeComplete {
		return
	}
	if in.Input == unmeasured {
		in.Input = estimate(in.Request.AskedBytes)
	}
	if in.Output == unmeasured {
		in.Output = estimate(t.bytes)
	}
}

func (in *Interaction) unread() {
	in.Outcome = OutcomeUnread
	if in.Status >= http.StatusMultipleChoices {
		in.Outcome = OutcomeFailed
	}
	in.Said, in.Stops, in.Error, in.Sample = nil, nil, "", nil
	in.Deltas, in.Input, in.Output, in.Cached, in.Reasoning = unmeasured, unmeasured, unmeasured, unmeasured, unmeasured
}
