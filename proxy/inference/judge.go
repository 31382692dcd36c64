package inference

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/inference/members"
	"github.com/actionproof/mediator/proxy/jsonread"
)

const maxUnknown = 8 // unknown members that may pass, so that a receipt has all

// listed reports whether the rule lists a name, and records that the request uses it.
func (r *reading) listed(name string) bool {
	if !slices.Contains(r.rule.Hosted, name) {
		return false
	}
	if !slices.Contains(r.Hosted, name) {
		r.Hosted = append(r.Hosted, name)
	}
	return true
}

func (r *reading) acts(name string) {
	if !r.listed(name) {
		r.judged.Acts.Add(name)
	}
}

func (r *reading) unknown(name string) {
	if !r.listed(name) {
		r.judged.Unknown.Add(name)
	}
}

// state judges a pointer to content that the provider keeps. Its content was seen if an answer in this session made it.
func (r *reading) state(name, id string) {
	if !r.kept.Has(r.host, id) && !r.listed(name) {
		r.judged.Unseen.Add(name)
	}
}

// judge judges a tool or a part of the content.
func (r *reading) judge(class members.Class, name string) {
	switch class {
	case members.Acts:
		r.acts(name)
	case members.Unknown:
		r.unknown(name)
	}
}

func (r *reading) member(known members.Classes, m jsonread.Member) {
	switch class := known[m.Name]; {
	case class.Passes() || jsonread.IsUnset(m.Value):
	case class == members.State:
		r.pointer(m)
	case class == members.Unknown && r.rule.AllowUnknown && hostedName.MatchString(m.Name) &&
		!r.known.Near(m.Name) && len(r.Unknown) < maxUnknown:
		r.Unknown = append(r.Unknown, m.Name)
		r.fetched(m.Name, m.Value)
	default:
		r.judge(class, m.Name)
	}
}

// pointer judges a member that is an id, or has one.
func (r *reading) pointer(m jsonread.Member) {
	id, ok := m.Text()
	switch {
	case !ok && jsonread.IsUnset(m.Value):
		return
	case ok || m.Value.Kind() != '{':
		r.state(m.Name, id)
		return
	}
	o := r.object(m.Value, m.Name)
	made, _ := o.Get("type").Text()
	for _, has := range o {
		text, isText := has.Text()
		switch {
		case jsonread.IsUnset(has.Value) || has.Name == "type":
		case isText && (has.Name == "id" || has.Name == "previous_message_id"):
			id = text
		case m.Name == "container": // skills, which the provider runs
			r.acts(m.Name)
		case m.Name == "thread":
			r.unknown(m.Name + "." + has.Name)
		}
	}
	if m.Name != "thread" || made != "create" || id != "" {
		r.state(m.Name, id)
	}
}

// object reads an object of which each member is judged. Google's parsers take both spellings of a name, snake_case and
// camelCase, so only the latter is left.
func (r *reading) object(raw jsontext.Value, what string) jsonread.Object {
	o, err := jsonread.Lenient(raw, 1)
	if err != nil {
		r.fail(unreadable(jsonread.ErrMalformed, what))
	}
	r.spell(o)
	return o
}

func (r *reading) spell(o jsonread.Object) {
	if r.Dialect != Gemini {
		return
	}
	seen := make(map[string]bool, len(o))
	for i, m := range o {
		name := members.CamelCase(m.Name)
		if seen[name] {
			r.fail(refusal.New("message_ambiguous", "the request has the member %.60q twice, in two spellings", name))
		}
		o[i].Name, seen[name] = name, true
	}
}
