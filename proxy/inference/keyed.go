package inference

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/proxy/inference/members"
	"github.com/actionproof/mediator/proxy/jsonread"
)

// In the APIs of Google and Amazon a tool or a part of a message has no type: the name of its member says what it is.

func (r *reading) keyed() bool { return r.Dialect == Gemini || r.Dialect == BedrockConverse }

func (r *reading) gemini(top jsonread.Object) {
	r.config(top.Get("generationConfig").Value)
	r.keyedTools(top.Get("tools").Value)
	if raw := top.Get("systemInstruction").Value; raw != nil && raw.Kind() != 'n' {
		r.keyedMessage(raw, "system")
	}
	r.messages(top.Get("contents").Value)
}

func (r *reading) converse(top jsonread.Object) {
	r.config(top.Get("additionalModelRequestFields").Value)
	if raw := top.Get("toolConfig").Value; raw != nil && raw.Kind() != 'n' {
		o := r.object(raw, "toolConfig")
		for _, m := range o {
			if m.Name != "tools" && m.Name != "toolChoice" {
				r.unknown("toolConfig." + m.Name)
			}
		}
		r.keyedTools(o.Get("tools").Value)
	}
	r.parts(top.Get("system").Value, "system")
	r.messages(top.Get("messages").Value)
}

// config judges an object of settings, member by member.
func (r *reading) config(raw jsontext.Value) {
	if raw == nil || raw.Kind() == 'n' {
		return
	}
	for _, m := range r.object(raw, "the configuration") {
		r.member(r.known.Config, m)
	}
}

func (r *reading) keyedTools(raw jsontext.Value) {
	r.each(raw, "the list of tools", func(raw jsontext.Value) {
		for _, m := range r.object(raw, "a tool") {
			class := r.known.Tools[m.Name]
			if !class.Passes() && jsonread.IsUnset(m.Value) {
				continue
			}
			r.judge(class, m.Name)
			switch m.Name {
			case "functionDeclarations":
				r.each(m.Value, "the list of functions", r.function)
			case "toolSpec":
				r.function(m.Value)
			case "computerUse":
				r.tool(m.Name)
			}
		}
	})
}

func (r *reading) function(raw jsontext.Value) {
	name, _ := r.object(raw, "a function").Get("name").Text()
	r.tool(name)
}

// keyedMessage reads a message. It says its role itself if role is empty.
func (r *reading) keyedMessage(raw jsontext.Value, role string) {
	o := r.object(raw, "a message")
	for _, m := range o {
		switch m.Name {
		case "role":
			if text, ok := m.Text(); ok && role == "" {
				role = members.NameOf(text)
			}
			if role == "model" {
				role = "assistant" // as in the other APIs
			}
		case "parts", "content":
		default:
			r.fetched(m.Name, m.Value)
		}
	}
	parts := "parts"
	if r.Dialect == BedrockConverse {
		parts = "content"
	}
	r.parts(o.Get(parts).Value, role)
}

func (r *reading) keyedParts(raw jsontext.Value, role string) {
	r.each(raw, "the content of a message", func(raw jsontext.Value) {
		o := r.object(raw, "a part of a message")
		for _, m := range o {
			if m.Value.Kind() != 'n' {
				r.keyedPart(o, m, role)
			}
		}
	})
}

// keyedPart reads one member of a part.
func (r *reading) keyedPart(part jsonread.Object, m jsonread.Member, role string) {
	class := r.known.Parts[m.Name]
	r.judge(class, m.Name)
	switch f, known := keyedForms[m.Name]; {
	case known:
		r.form(f, r.object(m.Value, "a part of a message"), role)
	case m.Name == "text":
		kind := KindText
		if string(part.Get("thought").Value) == "true" {
			kind = KindReasoning
		}
		r.add(Block{Role: role, Kind: kind}, unquoted(m.Value))
	case m.Name == "thought":
	case m.Name == "json":
		r.add(Block{Role: role, Kind: KindText}, m.Value)
	case m.Name == "functionResponse":
		o := r.object(m.Value, "a part of a message")
		id := r.answered(text(o, "id"), members.NameOf(text(o, "name")))
		r.add(Block{Role: role, Kind: KindResult, ID: idOf(r.key, id)}, o.Get("response").Value)
		if raw := o.Get("parts").Value; raw != nil {
			r.other(raw, role, id)
			r.fetched("parts", raw)
		}
	case m.Name == "reasoningContent":
		o := r.object(m.Value, "a part of a message")
		for _, m := range o {
			r.keyedPart(o, m, role)
		}
	case class != members.Tuning && class != members.Metadata:
		r.other(m.Value, role, "")
		if class != members.Past {
			r.fetched(m.Name, m.Value)
		}
	}
}

// open is a call in a request that no result has answered yet.
type open struct{ id, as, name string }

// answered returns the id of the call to which a result belongs: by its id if a call has it, or else the first open
// call of its name.
func (r *reading) answered(id, name string) string {
	at := slices.IndexFunc(r.open, func(c open) bool { return id != "" && c.as == id })
	if at < 0 {
		at = slices.IndexFunc(r.open, func(c open) bool { return c.name == name })
	}
	if at < 0 {
		return id
	}
	id = r.open[at].id
	r.open = slices.Delete(r.open, at, at+1)
	return id
}
