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
	if err := r.members(top); err != nil {
		return nil, err
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
}

func (r *reading) members(top jsonread.Object) error {
	if err := r.spell(top); err != nil {
		return err
	}
	for _, m := range top {
		if err := r.member(r.known.Request, m); err != nil {
			return err
		}
	}
	var model string
	if raw := top.Get("model").Value; raw != nil {
		if err := jsonread.Decode(raw, &model); err != nil {
			return unreadable(err, "model")
		}
	}
	r.Model = members.NameOf(model)
	r.judgeModel(model)
	if all := top.Get("models").Value; all != nil { // OpenRouter may take any
		if err := each(all, "models", func(raw jsontext.Value) error {
			err := jsonread.Decode(raw, &model)
			r.judgeModel(model)
			return err
		}); err != nil {
			return err
		}
	}
	r.Stream = r.Dialect == OllamaChat // unless it says otherwise
	if raw := top.Get("stream").Value; raw != nil {
		if err := jsonread.Decode(raw, &r.Stream); err != nil {
			return unreadable(err, "stream")
		}
	}
	if r.Dialect != Gemini && r.Dialect != BedrockConverse {
		if err := r.tools(top.Get("tools").Value, ""); err != nil {
			return err
		}
		if err := r.tools(top.Get("functions").Value, "function"); err != nil { // the predecessor of tools
			return err
		}
	}
	if err := r.content(top); err != nil {
		return err
	}
	r.Asked = slices.Clone(r.Asked[max(0, len(r.Asked)-maxBlocks):])
	return nil
}

func (r *reading) judgeModel(name string) {
	if members.Searches(name) {
		r.acts("online")
	}
	if members.IsPrompt(name) {
		r.state("prompt", "")
	}
}

type tool struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Function    named          `json:"function"`
	Custom      named          `json:"custom"`
	Environment jsontext.Value `json:"environment"`
	Execution   string         `json:"execution"`
	Tools       jsontext.Value `json:"tools"`

	runsIn string // the environment's type
}

type environment struct {
	Type string `json:"type"`
}

// runsHere reports whether a tool that the provider runs by default is run by the agent.
func (t tool) runsHere(d Dialect) bool {
	return d == OpenAIResponses &&
		(t.Type == "shell" && t.runsIn == "local" || t.Type == "tool_search" && t.Execution == "client")
}

// tools judges a list of tools; those without a type have the type untyped.
func (r *reading) tools(raw jsontext.Value, untyped string) error {
	if raw == nil {
		return nil
	}
	return each(raw, "the list of tools", func(raw jsontext.Value) error {
		t, err := readTool(raw)
		if err != nil {
			return err
		}
		if r.Dialect != OpenAIResponses || t.Type != "namespace" {
			r.judgeTool(t, untyped)
			return nil
		}
		return each(t.Tools, "a namespace of tools", func(raw jsontext.Value) error {
			t, err := readTool(raw)
			switch {
			case err != nil:
				return err
			case t.Type == "namespace":
				r.acts(t.Type)
			default:
				r.judgeTool(t, untyped)
			}
			return nil
		})
	})
}

func readTool(raw jsontext.Value) (t tool, err error) {
	if _, err = jsonread.DecodeObject(raw, &t); err != nil || t.Environment == nil {
		return t, unreadable(err, "a tool")
	}
	var e environment
	_, err = jsonread.DecodeObject(t.Environment, &e)
	t.runsIn = e.Type
	return t, unreadable(err, "the environment of a tool")
}

func (r *reading) judgeTool(t tool, untyped string) {
	t.Type = cmp.Or(t.Type, untyped)
	switch class := r.known.Tools[t.Type]; {
	case class == members.Content || t.runsHere(r.Dialect) || t.Type == "" && r.Dialect == AnthropicMessages:
		r.tool(t.Name, t.Function.Name, t.Custom.Name, t.Type)
	case t.Type == "":
		r.acts(Untyped)
	default:
		r.judge(class, t.Type)
	}
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
		b.Measured = &Measured{Words: wordsOf(string(text))}
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
	mac := newMAC(key, k)
	mac.Write(text)
	mac.Sum(h[:0])
	return h
}

func newMAC(key []byte, k Kind) hash.Hash {
	mac := hmac.New(sha256.New, key)
	if k == KindCall {
		mac.Write([]byte("arguments\x00"))
	} else {
		mac.Write([]byte("text\x00"))
	}
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

func each(raw jsontext.Value, what string, do func(jsontext.Value) error) error {
	return unreadable(jsonread.Each(raw, do), what)
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
