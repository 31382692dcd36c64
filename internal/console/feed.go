package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/own"
)

const (
	rows        = 50  // of calls on a page
	refusedRows = 10  // of refused and failed calls above them
	scanned     = 250 // records that are read at most for a page whose filter no index has
)

// filter selects calls. A page's URL has all of it.
type filter struct {
	ledger.Query
	Since, Until      string // as they were written
	Code, Host, Agent string
}

func (s *Server) filter(v url.Values) (f filter, err error) {
	f = filter{Since: v.Get("since"), Until: v.Get("until"), Code: v.Get("code"), Host: v.Get("host"),
		Agent: v.Get("agent")}
	f.State, f.Flow, f.Session = ledger.State(v.Get("state")), v.Get("flow"), v.Get("session")
	f.Key, f.Cursor = v.Get("key"), v.Get("cursor")
	for text, to := range map[string]*time.Time{f.Since: &f.Query.Since, f.Until: &f.Query.Until} {
		if text != "" && err == nil {
			*to, err = admin.ParseTime(text, s.Now())
		}
	}
	if err == nil {
		err = admin.CheckQuery(f.Query)
	}
	return f, err
}

func (f filter) selects(r ledger.Record) bool {
	return (f.Code == "" || r.Code == f.Code) && (f.Host == "" || r.Host == f.Host) &&
		(f.Agent == "" || r.Subject == f.Agent)
}

// IsSet reports whether the filter leaves any call out.
func (f filter) IsSet() bool { return f.link("") != "/feed" }

// link returns the page with the same filter, after a record.
func (f filter) link(cursor string) place {
	return link("/feed", "state", string(f.State), "flow", f.Flow, "session", f.Session, "since", f.Since, "until",
		f.Until, "key", f.Key, "code", f.Code, "host", f.Host, "agent", f.Agent, "cursor", cursor)
}

func (f filter) form() Node {
	return Form(Class("filter"), Method("get"), Action("/feed"), Aria("label", "Filter"),
		choice("State", f.State, states), choice("Flow", f.Flow, proxy.Flows[:]),
		field("Code", f.Code, "11", ID("filter")), field("Host", f.Host, "11"), field("Agent", f.Agent, "11"),
		field("Session", f.Session, "11"), field("Since", f.Since, "8", Placeholder("24h")),
		field("Until", f.Until, "8"),
		If(f.Key != "", Input(Type("hidden"), Name("key"), Value(f.Key))),
		Button(Text("Filter")), space,
		If(f.IsSet(), Group{A(to(f.link("")), Text("Link to this")), space, A(to("/feed"), Text("Show all"))}))
}

func choice[V ~string](title string, chosen V, all []V) Node {
	return Group{Label(Text(title+" "), Select(Name(strings.ToLower(title)), Option(Value(""), Text("all")),
		Map(all, func(v V) Node { return Option(If(v == chosen, Selected()), text(string(v))) }))), space}
}

func field(title, value, size string, more ...Node) Node {
	return Group{Label(Text(title+" "), Input(Name(strings.ToLower(title)), Value(value), Attr("size", size),
		Attr("spellcheck", "false"), AutoComplete("off"), Group(more))), space}
}

func (s *Server) feed(r *http.Request) (view, error) {
	f, err := s.filter(r.URL.Query())
	if err != nil {
		return view{}, err
	}
	rules := ask[own.Rules](r.Context(), s.Admin, "/v1/rules").Is.Rules
	var refused []ledger.Record                         // the newest
	if f.State == "" && f.Cursor == "" && f.Key == "" { // no index has both the key and the state
		for _, state := range []ledger.State{ledger.StateRefused, ledger.StateFailed} {
			of := f
			of.State = state
			found, _, err := s.list(r.Context(), of, refusedRows)
			if err != nil {
				return view{}, err
			}
			refused = append(refused, found...)
		}
		slices.SortStableFunc(refused, func(a, b ledger.Record) int { return b.Started.Compare(a.Started) })
		refused = refused[:min(len(refused), refusedRows)]
	}
	found, older, err := s.list(r.Context(), f, rows)
	if err != nil {
		return view{}, err
	}
	title, none, more := "All calls", "No call.", place("")
	if f.IsSet() {
		title = "Selected calls"
	}
	if older != "" {
		none, more = "No call among those that were read.", f.link(older)
	}
	return view{"/feed", "Feed", Div(If(f.Cursor == "" && f.Until == "", following),
		H1(Text("Feed")), f.form(),
		If(f.Key != "", P(Text("Calls with evidence that "), code(f.Key), Text(" has signed."))),
		If(len(refused) > 0, Section(Class("first"), Aria("labelledby", "refused"),
			H2(ID("refused"), Text("Refused and failed")), calls(refused, "first", rules, ""))),
		section("calls", title, calls(found, "call", rules, none), next(more, "Older calls")))}, nil
}

// list returns at most limit calls that a filter selects, and the cursor for the next ones.
func (s *Server) list(ctx context.Context, f filter, limit int) (found []ledger.Record, older string, err error) {
	read := limit + 1
	if f.Code != "" || f.Host != "" || f.Agent != "" {
		read = scanned
	}
	all, err := s.records(ctx, f.Query, read)
	if err != nil {
		return nil, "", err
	}
	for i, r := range all {
		if f.selects(r) {
			found = append(found, r)
		}
		if len(found) == limit && i+1 < len(all) || i+1 == scanned {
			return found, r.ID, nil
		}
	}
	return found, "", nil
}
