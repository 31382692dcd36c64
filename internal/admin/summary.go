package admin

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// MaxSummary bounds the calls that a [Summary] counts: it must cost the same however long the record is.
const MaxSummary = 500

const spans = 60

// Summary counts the newest calls of a selection.
type Summary struct {
	Calls int       `json:"calls"`
	First time.Time `json:"first"` // the start of the oldest counted call
	Last  time.Time `json:"last"`  // that of the newest
	// Earlier is the cursor for the calls before these; empty if there are none.
	Earlier string               `json:"earlier,omitempty"`
	States  map[ledger.State]int `json:"states"`
	Posts   map[ledger.State]int `json:"posts"`
	// Codes and Agents count the refused and failed calls.
	Codes    []Count          `json:"codes"`
	Agents   []Count          `json:"agents"`
	Steps    []Latency        `json:"steps"`    // of posts, in their order
	Sessions []SessionSummary `json:"sessions"` // the latest first
	// Spans count the calls in equal intervals from First to Last.
	Spans []Span `json:"spans"`
}

// Count is the number of calls with one name.
type Count struct {
	Name  string `json:"name"`
	Calls int    `json:"calls"`
}

// Latency describes the duration of a step, in microseconds.
type Latency struct {
	Step   string `json:"step"`
	Calls  int    `json:"calls"`
	Median int64  `json:"median"`
	P95    int64  `json:"p95"`
}

// SessionSummary counts the calls of one session.
type SessionSummary struct {
	ID     string               `json:"id"`
	Event  string               `json:"event,omitempty"`
	Agent  string               `json:"agent,omitempty"` // the subject of its last post; empty without one
	Open   bool                 `json:"open"`
	First  time.Time            `json:"first"`
	Last   time.Time            `json:"last"`
	Calls  int                  `json:"calls"`
	Posts  int                  `json:"posts"`
	Models int                  `json:"models"`
	States map[ledger.State]int `json:"states"`
}

// Span counts the calls of one interval.
type Span struct {
	Start  time.Time            `json:"start"`
	States map[ledger.State]int `json:"states"`
}

func (s *Server) summary(r *http.Request) (Summary, error) {
	selection, err := parseSelection(r.URL.Query())
	if err != nil {
		return Summary{}, err
	}
	selection.Bare, selection.Keys = true, false
	selection.Limit = MaxSummary + 1
	var all []ledger.Record
	for record, err := range Select(r.Context(), s.Ledger, selection) {
		if err != nil {
			return Summary{}, err
		}
		all = append(all, record)
	}
	earlier := ""
	if len(all) > MaxSummary {
		all = all[:MaxSummary]
		earlier = all[MaxSummary-1].ID
	}
	sum := Summarize(all)
	sum.Earlier = earlier
	for i := range sum.Sessions {
		_, sum.Sessions[i].Open = s.Sessions.Get(sum.Sessions[i].ID)
	}
	return sum, nil
}

// Summarize counts records, which come newest first. It does not know which sessions are open.
func Summarize(all []ledger.Record) Summary {
	sum := Summary{Calls: len(all), States: make(map[ledger.State]int), Posts: make(map[ledger.State]int)}
	if len(all) == 0 {
		return sum
	}
	sum.Last, sum.First = all[0].Started, all[len(all)-1].Started
	sum.Spans = emptySpans(sum.First, sum.Last)
	sessions, codes, agents, steps := bySession(all), make(map[string]int), make(map[string]int),
		make(map[string][]int64)
	var order []string
	for _, r := range all {
		sum.States[r.State]++
		sum.Spans[spanOf(sum, r.Started)].States[r.State]++
		if r.State == ledger.StateRefused || r.State == ledger.StateFailed {
			codes[r.Code]++
			agents[agentOf(r, sessions)]++
		}
		if r.Flow != "post" {
			continue
		}
		sum.Posts[r.State]++
		for _, s := range r.Steps {
			if steps[s.Name] == nil {
				order = append(order, s.Name)
			}
			steps[s.Name] = append(steps[s.Name], s.Micros)
		}
	}
	sum.Codes, sum.Agents = most(codes), most(agents)
	for _, name := range order {
		took := steps[name]
		slices.Sort(took)
		sum.Steps = append(sum.Steps, Latency{name, len(took), took[len(took)/2], took[len(took)*95/100]})
	}
	for _, s := range sessions {
		sum.Sessions = append(sum.Sessions, *s)
	}
	slices.SortFunc(sum.Sessions, func(a, b SessionSummary) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.ID, b.ID))
	})
	return sum
}

func bySession(all []ledger.Record) map[string]*SessionSummary {
	sessions := make(map[string]*SessionSummary)
	for _, r := range all {
		if r.Session == "" {
			continue
		}
		s := sessions[r.Session]
		if s == nil {
			s = &SessionSummary{ID: r.Session, Event: r.Event, Last: r.Started, States: make(map[ledger.State]int)}
			sessions[r.Session] = s
		}
		s.Agent, s.First = cmp.Or(s.Agent, r.Subject), r.Started
		s.Calls++
		s.States[r.State]++
		if r.Flow == "post" {
			s.Posts++
		}
		if r.Model != nil {
			s.Models++
		}
	}
	return sessions
}

// agentOf names the agent of a call: the subject of its rule, or of another call of its session.
func agentOf(r ledger.Record, sessions map[string]*SessionSummary) string {
	if s := sessions[r.Session]; r.Subject == "" && s != nil {
		return s.Agent
	}
	return r.Subject
}

func emptySpans(first, last time.Time) []Span {
	all := make([]Span, spans)
	for i := range all {
		all[i] = Span{first.Add(last.Sub(first) * time.Duration(i) / spans), make(map[ledger.State]int)}
	}
	return all
}

func spanOf(sum Summary, at time.Time) int {
	length := sum.Last.Sub(sum.First)
	if length <= 0 {
		return spans - 1
	}
	return min(spans-1, max(0, int(int64(at.Sub(sum.First))*spans/int64(length))))
}

func most(counts map[string]int) []Count {
	all := []Count{}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, Count{name, counts[name]})
	}
	slices.SortStableFunc(all, func(a, b Count) int { return b.Calls - a.Calls })
	return all
}
