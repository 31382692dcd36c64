package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
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
func (f filter) IsSet() bool { return f.Permalink() != "/feed" }

// link returns the page with the same filter, after a record.
func (f filter) link(cursor string) string {
	return link("/feed", "state", string(f.State), "flow", f.Flow, "session", f.Session, "since", f.Since, "until",
		f.Until, "key", f.Key, "code", f.Code, "host", f.Host, "agent", f.Agent, "cursor", cursor)
}

// Permalink is the page as it is, without its place in the list.
func (f filter) Permalink() string { return f.link("") }

type row struct {
	ledger.Record
	Place string // tells the row from others of the same call on the page
	Why   *why   // nil unless the call was refused or failed
}

type why struct {
	Title, Remedy string
	Closest       *closest
	Proposal      string
}

type feedPage struct {
	Filter  filter
	States  []ledger.State
	Flows   []string
	Refused []row // the newest, above all
	Rows    []row
	Older   string // the page with the calls before these; empty if there are none
	Live    bool
}

func (s *Server) feed(r *http.Request) (view, error) {
	f, err := s.filter(r.URL.Query())
	if err != nil {
		return view{}, err
	}
	p := feedPage{Filter: f, States: states, Flows: proxy.Flows[:], Live: f.Cursor == "" && f.Until == ""}
	rules := ask[own.Rules](r.Context(), s.Admin, "/v1/rules").Is.Rules
	if f.State == "" && f.Cursor == "" && f.Key == "" { // no index has both the key and the state
		for _, state := range []ledger.State{ledger.StateRefused, ledger.StateFailed} {
			of := f
			of.State = state
			found, _, err := s.list(r.Context(), of, refusedRows)
			if err != nil {
				return view{}, err
			}
			p.Refused = append(p.Refused, explained(found, "first", rules)...)
		}
		slices.SortStableFunc(p.Refused, func(a, b row) int { return b.Started.Compare(a.Started) })
		p.Refused = p.Refused[:min(len(p.Refused), refusedRows)]
	}
	found, older, err := s.list(r.Context(), f, rows)
	if err != nil {
		return view{}, err
	}
	if p.Rows = explained(found, "call", rules); older != "" {
		p.Older = f.link(older)
	}
	return view{"feed", "Feed", p}, nil
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

func explained(all []ledger.Record, place string, rules []own.Rule) (out []row) {
	for _, r := range all {
		out = append(out, row{r, place, explain(r, rules)})
	}
	return out
}

// explain returns why a call was refused or failed; nil if it was neither.
func explain(r ledger.Record, rules []own.Rule) *why {
	if r.Code == "" {
		return nil
	}
	title := problem.DetailsOf(refusal.New(r.Code, "")).Title
	return &why{title, problem.Remedy(r.Code), closestTo(r, rules), proposal(r)}
}

func count[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }
