package inference

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/proxy/inference/members"
	"github.com/actionproof/mediator/proxy/jsonread"
)

// In the APIs of Google and Amazon a tool or a part of a message has no type: the name of its member says what it is.

func (r *reading) gemini(top jsonread.Object) error {
	if err := r.config(top.Get("generationConfig").Value); err != nil {
		return err
	}
	if err := r.keyedTools(top.Get("tools").Value); err != nil {
		return err
	}
	if raw := top.Get("systemInstruction").Value; raw != nil && raw.Kind() != 'n' {
		if err := r.keyedMessage(raw, "system"); err != nil {
			return err
		}
	}
	return r.keyedMessages(top.Get("contents").Value)
}

func (r *reading) converse(top jsonread.Object) error {
	if err := r.config(top.Get("additionalModelRequestFields").Value); err != nil {
		return err
	}
	if raw := top.Get("toolConfig").Value; raw != nil && raw.Kind() != 'n' {
		o, err := r.object(raw, "toolConfig")
		if err != nil {
			return err
		}
		for _, m := range o {
			if m.Name != "tools" && m.Name != "toolChoice" {
				r.unknown("toolConfig." + m.Name)
			}
		}
		if err := r.keyedTools(o.Get("tools").Value); err != nil {
			return err
		}
	}
	if err := r.keyedParts(top.Get("system").Value, "system"); err != nil {
		return err
	}
	return r.keyedMessages(top.Get("messages").Value)
}

// config judges an object of settings, member by member.
func (r *reading) config(raw jsontext.Value) error {
	if raw == nil || raw.Kind() == 'n' {
		return nil
	}
	o, err := r.object(raw, "the configuration")
	if err != nil {
		return err
	}
	for _, m := range o {
		if err := r.member(r.known.Config, m); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) keyedTools(raw jsontext.Value) error {
	if raw == nil {
		return nil
	}
	return each(raw, "the list of tools", func(raw jsontext.Value) error {
		o, err := r.object(raw, "a tool")
		if err != nil {
			return err
		}
		for _, m := range o {
			class := r.known.Tools[m.Name]
			if !class.Passes() && jsonread.IsUnset(m.Value) {
				continue
			}
			r.judge(class, m.Name)
			switch m.Name {
			case "functionDeclarations":
				err = each(m.Value, "the list of functions", r.function)
			case "toolSpec":
				err = r.function(m.Value)
			case "computerUse":
				r.tool(m.Name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *reading) function(raw jsontext.Value) error {
	o, err := r.object(raw, "a function")
	if err != nil {
		return err
	}
	name, _ := o.Get("name").Text()
	r.tool(name)
	return nil
}

func (r *reading) keyedMessages(raw jsontext.Value) error {
	if raw == nil {
		return malformed("it has no messages; for other operations, name the observed paths one by one, and theirs")
	}
	return each(raw, "the list of messages", func(raw jsontext.Value) error { return r.keyedMessage(raw, "") })
}

// keyedMessage reads a message. It says its role itself if role is empty.
func (r *reading) keyedMessage(raw jsontext.Value, role string) error {
	o, err := r.object(raw, "a message")
	if err != nil {
		return err
	}
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
	parts := o.Get("parts").Value
	if r.Dialect == BedrockConverse {
		parts = o.Get("content").Value
	}
	return r.keyedParts(parts, role)
}

func (r *reading) keyedParts(raw jsontext.Value, role string) error {
	if raw == nil {
		return nil
	}
	return each(raw, "the content of a message", func(raw jsontext.Value) error {
		o, err := r.object(raw, "a part of a message")
		if err != nil {
			return err
		}
		for _, m := range o {
			if m.Value.Kind() == 'n' {
				continue
			}
			if err := r.keyedPart(o, m, role); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *reading) keyedPart(o jsonread.Object, m jsonread.Member, role string) error {
	class := r.known.Parts[m.Name]
	r.judge(class, m.Name)
	switch m.Name {
	case "text":
		kind := KindText
		if string(o.Get("thought").Value) == "true" {
			kind = KindReasoning
		}
		r.add(Block{Role: role, Kind: kind}, unquoted(m.Value))
	case "thought":
	case "json":
		r.add(Block{Role: role, Kind: KindText}, m.Value)
	case "functionCall", "toolUse", "functionResponse", "toolResult", "reasoningContent", "reasoningText":
		inner, err := r.object(m.Value, "a part of a message")
		if err != nil {
			return err
		}
		return r.keyedObject(m.Name, inner, role)
	default:
		if class == members.Tuning || class == members.Metadata {
			return nil
		}
		r.other(m.Value, role, "")
		if class != members.Past {
			r.fetched(m.Name, m.Value)
		}
	}
	return nil
}

// keyedObject reads the value of a part that is an object.
func (r *reading) keyedObject(kind string, o jsonread.Object, role string) error {
	text := func(name string) string { s, _ := o.Get(name).Text(); return s }
	switch kind {
	case "functionCall":
		r.unnamedCall(role, text("id"), members.NameOf(text("name")), textOf(o.Get("args").Value))
	case "toolUse":
		r.call(role, text("toolUseId"), members.NameOf(text("name")), textOf(o.Get("input").Value))
	case "functionResponse":
		id := r.answered(text("id"), members.NameOf(text("name")))
		r.add(Block{Role: role, Kind: KindResult, ID: idOf(r.key, id)}, o.Get("response").Value)
		if raw := o.Get("parts").Value; raw != nil {
			r.other(raw, role, id)
			r.fetched("parts", raw)
		}
	case "toolResult":
		return r.answering(text("toolUseId"), func() error { return r.keyedParts(o.Get("content").Value, role) })
	case "reasoningContent":
		for _, m := range o {
			if err := r.keyedPart(o, m, role); err != nil {
				return err
			}
		}
	case "reasoningText":
		r.add(Block{Role: role, Kind: KindReasoning}, unquoted(o.Get("text").Value))
	}
	return nil
}

// open is a call in a request that no result has answered yet.
type open struct{ id, as, name string }

// unnamedCall reads a call of an API that may give calls no ids. Clients then make some, which no answer has.
func (r *reading) unnamedCall(role, as, name, arguments string) {
	id := as
	if !r.kept.Has(r.host, as) {
		id = callID(r.key, name, canonical(arguments))
	}
	if len(r.open) < maxBlocks {
		r.open = append(r.open, open{id, as, name})
	}
	r.call(role, id, name, arguments)
}

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
