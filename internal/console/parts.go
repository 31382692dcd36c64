package console

import (
	"strconv"
	"strings"
	"time"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/own"
)

// shapes mark states by more than colour.
var shapes = map[ledger.State]string{ledger.StateForwarded: "●", ledger.StateForwarding: "○",
	ledger.StateRefused: "✕", ledger.StateFailed: "▲", ledger.StateIndeterminate: "◆"}

// states has the order of states on a page: the refused first.
var states = []ledger.State{ledger.StateRefused, ledger.StateFailed, ledger.StateIndeterminate, ledger.StateForwarding,
	ledger.StateForwarded}

func state(s ledger.State) Node {
	return Span(Class("state "+string(s)), sign(shapes[s]), say(" %s", s))
}

var marks = map[string]string{good: "✓ good", bad: "✕ bad", declared: "◌ declared", none: "– none",
	unknown: "– not known"}

func mark(status string) Node { return Span(Class("mark "+status), Text(marks[status])) }

func took(r ledger.Record) string {
	if r.Finished.IsZero() {
		return ""
	}
	return millis(r.Finished.Sub(r.Started).Microseconds())
}

// explanation says why a call was refused or failed; nil if it was neither.
func explanation(r ledger.Record, rules []own.Rule) Node {
	if r.Code == "" {
		return nil
	}
	nearest := pair("Closest rule", Text("No rule names this host."))
	if c := closestTo(r, rules); c != nil {
		differs := P(Text("It matches the call. What refused the call came later."))
		if len(c.Differs) > 0 {
			differs = Ul(Class("differs"), Map(c.Differs, func(d string) Node { return Li(text(d)) }))
		}
		nearest = pair("Closest rule", code(c.Rule.Name),
			say(" (%s): %s ", c.Rule.Kind, strings.Join(c.Rule.Methods, ", ")), code(c.Rule.URL), differs)
	}
	rule := proposal(r)
	return Div(Class("why"), P(Class("reason"), Code(Class("code"), text(r.Code)), If(r.Step != "", say(" at step %s",
		r.Step)), say(": %s", r.Reason)), Dl(pair("Remedy", text(problem.Remedy(r.Code))), nearest, If(rule != "",
		pair("A rule for it", P(Text("Narrow it, and add a subject if it posts. "), code("mediator learn"),
			Text(" proposes the same.")), Pre(TabIndex("0"), text(rule))))))
}

// calls lists calls. The ids of its elements begin with prefix: another list of the page can have the same calls.
func calls(all []ledger.Record, prefix string, rules []own.Rule, none string) Node {
	return list(all, none, Ol, "calls", func(r ledger.Record) Node { return call(r, prefix, rules) })
}

func call(r ledger.Record, prefix string, rules []own.Rule) Node {
	result := r.Code
	if result == "" && r.Status != 0 {
		result = strconv.Itoa(r.Status)
	}
	what := "the call"
	if r.Flow == "post" {
		what = "the post and its evidence"
	}
	return Li(Details(Class("call"), ID(prefix+"-"+r.ID),
		Summary(
			Span(Class("when"), at(r.Started, r.Started.UTC().Format("Jan 02 15:04:05"))), space,
			state(r.State), space,
			Span(Class("what"), B(text(r.Method)), space, bdi(r.Host+r.Path),
				If(r.Message != "", Group{space, El("bdi", Class("dim"), text(r.Message))})), space,
			Span(Class("code"), text(result)), space,
			Span(Class("took"), Text(took(r)))),
		Div(Class("body"),
			explanation(r, rules),
			Dl(
				pair("Call", bdi(strings.TrimSpace(r.Method+" "+r.Host+r.Path))),
				pair("Flow", text(r.Flow), If(r.Rule != "", Group{Text(" by rule "), code(r.Rule)})),
				If(r.Subject != "", pair("Agent", bdi(r.Subject),
					If(r.Action != "", Group{Text(" does "), bdi(r.Action)}))),
				If(r.Session != "", pair("Session", A(to(under("/sessions/", r.Session)), text(r.Session)))),
				If(r.ContentHash != "", pair("Content", code(r.ContentHash))),
				pair("Started", say("%s UTC", stamp(r.Started)))),
			P(A(Class("open"), to(under("/posts/", r.ID)), say("Open %s", what))))))
}

// next leads to the page with more of a list.
func next(at place, title string) Node {
	return If(at != "", P(A(Rel("next"), to(at), Text(title))))
}

func timeline(all []records.Moment, none string) Node {
	return list(all, none, Ol, "timeline", func(m records.Moment) Node {
		if m.Unread != "" {
			return Li(Class("bad"), say("A receipt cannot be read: %s", m.Unread))
		}
		return Li(Class(m.Kind), Span(Class("kind"), text(m.Kind)), space, bdi(m.Text), If(m.Number != 0, Group{space,
			Span(Class("dim"), say("%+.3f s · receipt %d", m.After.Seconds(), m.Number))}))
	})
}

func lived(first, last time.Time) Node { return say("%s to %s UTC", stamp(first), stamp(last)) }

// hue explains a colour.
func hue(class string) Node { return Span(Class("key "+class), Aria("hidden", "true")) }

// following marks a page that shows new calls by itself.
var following = Attr("data-live")
