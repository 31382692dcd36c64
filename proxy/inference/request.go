package inference

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/inference/kept"
	"github.com/actionproof/mediator/proxy/inference/members"
	"github.com/actionproof/mediator/proxy/jsonread"
)

// MinKey is the least length of a key for HMACs of content, in bytes.
const MinKey = 32

const (
	maxBlocks = 1024 // of content, the last ones
	maxTools  = 256
)

// Request is a request to a model.
type Request struct {
	Dialect Dialect
	Model   string   // from the path if it names one (see [members.ModelInPath]), or else from the body; may be empty
	Stream  bool     // the agent asks for a stream
	Tools   []string // names of the agent's tools, at most 256
	Hosted  []string // what the rule lets the provider do unseen
	Unknown []string // members that passed without a class, at most 8
	// Asked are the last 1,024 of the AskedCount blocks of content.
	Asked      []Block
	AskedCount int
	// of all blocks
	AskedBytes int

	host string
	kept *kept.Set
}

// Call is a request to a model as the agent sent it.
type Call struct {
	Host string // host and port
	Path string // escaped
	Body []byte
	Key  []byte // for HMACs, at least [MinKey] bytes
	// Kept has what earlier answers of the session made. The answer to this request adds to it. May be nil.
	Kept    *kept.Set
	Measure *Measure // for a receipt; may be nil
}

// Read judges a request before it is sent. It refuses what two parsers could read differently, what would make the
// provider do more than rule allows, what points to content that the session has not seen, and what is unknown.
func Read(rule Rule, c Call) (*Request, error) {
	if len(c.Key) < MinKey {
		return nil, errors.New("inference: the key of the content is too short")
	}
	top, err := jsonread.Strict(c.Body, 1)
	switch {
	case errors.Is(err, jsonread.ErrAmbiguous):
		return nil, refusal.New("message_ambiguous",
			"two parsers could read the request to the model differently: it has two members whose names "+
				"are equal or differ only in case")
	case err != nil:
		return nil, malformed("it is not one JSON object in UTF-8, of at most %d levels and %d names and values",
			jsonread.MaxDepth, jsonread.MaxItems)
	}
	known := members.Of(string(rule.Dialect))
	if known == nil {
		return nil, rule.Check()
	}
	r := reading{Request: &Request{Dialect: rule.Dialect, host: c.Host, kept: c.Kept}, rule: rule, known: known,
		key: c.Key, measure: c.Measure}
	r.members(top)
	if r.err != nil {
		return nil, r.err
	}
	if model, ok := members.ModelInPath(c.Path); ok {
		r.Model = members.NameOf(model)
		r.judgeModel(model)
	}
	r.Stream = r.Stream || members.Streams(c.Path)
	return r.Request, r.judged.Refusal()
}

func malformed(format string, args ...any) error {
	return refusal.New("message_malformed", "the request to the model: "+format, args...)
}

type reading struct {
	*Request
	rule    Rule
	known   *members.API
	judged  members.Judgement
	key     []byte
	measure *Measure // may be nil
	answers *string  // the id of the call whose result is being read
	open    []open
	err     error // the first; nothing that is read after it counts
}

func (r *reading) fail(err error) { r.err = cmp.Or(r.err, err) }

// unreadable is the refusal for a part of a request that package jsonread did not read.
func unreadable(err error, what string) error {
	switch {
	case errors.Is(err, jsonread.ErrAmbiguous):
		return refusal.New("message_ambiguous", "%s in the request to the model: %w", what, err)
	case errors.Is(err, jsonread.ErrMalformed):
		return malformed("%s does not have the form that the API defines", what)
	}
	return err
}

// each reads the values of a list, if there is one, up to the first error.
func (r *reading) each(list jsontext.Value, what string, read func(jsontext.Value)) {
	if list == nil {
		return
	}
	r.fail(unreadable(jsonread.Each(list, func(raw jsontext.Value) error {
		read(raw)
		return r.err
	}), what))
}

// decode reads a value, if there is one.
func (r *reading) decode(raw jsontext.Value, what string, to any) {
	if raw != nil {
		r.fail(unreadable(jsonread.Decode(raw, to), what))
	}
}

func (r *reading) members(top jsonread.Object) {
	r.spell(top)
	for _, m := range top {
		r.member(r.known.Request, m)
	}
	var model string
	r.decode(top.Get("model").Value, "model", &model)
	r.Model = members.NameOf(model)
	r.judgeModel(model)
	r.each(top.Get("models").Value, "models", func(raw jsontext.Value) { // OpenRouter may take any
		r.decode(raw, "models", &model)
		r.judgeModel(model)
	})
	r.Stream = r.Dialect == OllamaChat // unless it says otherwise
	r.decode(top.Get("stream").Value, "stream", &r.Stream)
	if r.Dialect != Gemini && r.Dialect != BedrockConverse {
		r.tools(top.Get("tools").Value, "", false)
		r.tools(top.Get("functions").Value, "function", false) // the predecessor of tools
	}
	r.content(top)
	r.Asked = slices.Clone(r.Asked[max(0, len(r.Asked)-maxBlocks):])
}

func (r *reading) judgeModel(name string) {
	if members.Searches(name) {
		r.acts("online")
	}
	if members.IsPrompt(name) {
		r.state("prompt", "")
	}
}

// tools judges a list of tools; those without a type have the type untyped.
func (r *reading) tools(raw jsontext.Value, untyped string, inNamespace bool) {
	r.each(raw, "the list of tools", func(raw jsontext.Value) {
		t, _ := r.typed(raw, "a tool", toolFields)
		within, kind := t.Get("tools").Value, cmp.Or(text(t, "type"), untyped)
		switch {
		case r.Dialect != OpenAIResponses || kind != "namespace":
			r.judgeTool(t, kind)
		case inNamespace:
			r.acts(kind)
		case within == nil:
			r.fail(unreadable(jsonread.ErrMalformed, "a namespace of tools"))
		default:
			r.tools(within, untyped, true)
		}
	})
}

func (r *reading) judgeTool(t jsonread.Object, kind string) {
	// The provider runs these by default, but here the agent does. Other tools' environment may be a text.
	runsHere := r.Dialect == OpenAIResponses &&
		(kind == "shell" && r.inTool(t, "environment", "type") == "local" ||
			kind == "tool_search" && text(t, "execution") == "client")
	switch class := r.known.Tools[kind]; {
	case class == members.Content || runsHere || kind == "" && r.Dialect == AnthropicMessages:
		r.tool(text(t, "name"), r.inTool(t, "function", "name"), r.inTool(t, "custom", "name"), kind)
	case kind == "":
		r.acts(Untyped)
	default:
		r.judge(class, kind)
	}
}

// inTool returns a text of a tool's member that is an object.
func (r *reading) inTool(t jsonread.Object, member, name string) string {
	raw := t.Get(member).Value
	if raw == nil {
		return ""
	}
	o, _ := r.typed(raw, "a tool", fields{[]string{name}, 1})
	return text(o, name)
}

// tool notes the first of names that is a name.
func (r *reading) tool(names ...string) {
	for _, name := range names {
		if name = members.NameOf(name); name != "" && len(r.Tools) < maxTools {
			r.Tools = append(r.Tools, name)
			return
		}
	}
}

func (r *reading) add(b Block, text []byte) {
	if r.answers != nil {
		b.ID = *r.answers
		if b.Kind == KindText {
			b.Kind = KindResult
		}
	}
	b.Size = len(text)
	b.Hash = hashOf(r.key, b.Kind, text)
	if r.measure != nil && !r.measure.Known(b) {
		var words wordCount
		words.add(string(text))
		b.Measured = &Measured{Words: words.n}
		if b.Kind == KindResult {
			b.Measured.Values = r.measure.ValuesOf(string(text))
		}
	}
	r.AskedCount++
	r.AskedBytes += len(text)
	if r.Asked = append(r.Asked, b); len(r.Asked) == 2*maxBlocks {
		r.Asked = append(r.Asked[:0], r.Asked[maxBlocks:]...)
	}
}

func hashOf(key []byte, k Kind, text []byte) (h [sha256.Size]byte) {
	mac := newMAC(key, k.domain())
	mac.Write(text)
	mac.Sum(h[:0])
	return h
}

func (k Kind) domain() string {
	if k == KindCall {
		return "arguments"
	}
	return "text"
}

// newMAC has a domain for each use of the key.
func newMAC(key []byte, domain string) hash.Hash {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(domain + "\x00"))
	return mac
}

// idOf returns a call's id, or its hash if it does not look like a name: some providers put texts into ids.
func idOf(key []byte, id string) string {
	if members.NameOf(id) == id {
		return id
	}
	hash := hashOf(key, KindOther, []byte(id))
	return hex.EncodeToString(hash[:])
}

type list[T any] = jsonread.List[T]

// fetched judges content that the provider may fetch: a URL can carry out data of the agent. Servers use many member
// names for it, so every text that is an address counts. It also judges ids of files.
func (r *reading) fetched(member string, v jsontext.Value) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	for {
		token, err := dec.ReadToken()
		if err != nil { // the end, because the request is valid JSON
			return
		}
		switch token.Kind() {
		case '}', ']':
			member = ""
		case '"':
			text := token.String()
			if in, n := dec.StackIndex(dec.StackDepth()); in == '{' && n%2 == 1 {
				member = text
			} else if members.IsFileID(member) {
				r.state("file_id", text)
			} else if members.IsAddress(member, text) {
				r.acts(RemoteContent)
			}
		}
	}
}
