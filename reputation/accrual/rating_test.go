package accrual_test

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
)

const (
	day      = int64(86_400)
	midnight = 20_000 * day
)

var (
	formulas = evidence.HashBytes([]byte("formulas"))
	worker   = of("own")
	whole    = accrual.Signal{ID: "s", Trace: true, Sources: true, Context: true, Verification: true, Timestamp: true,
		Schema: true}
)

func of(owner string) accrual.Agent {
	return accrual.Agent{Owner: strings.Repeat("o", 43-len(owner)) + owner, Subject: "agent:worker-1"}
}

type log []accrual.Entry

func (l log) session(score float64, edits ...func(*accrual.Session)) log {
	s := accrual.Session{ID: fmt.Sprint("ses_", len(l)), EventID: fmt.Sprint("evt_", len(l)), Score: score,
		ScoringHash: formulas, Interactions: 1, Hosts: []string{"m:443"}}
	for _, edit := range edits {
		edit(&s)
	}
	return l.add(accrual.Entry{Session: &s})
}

func (l log) sessions(n int, score float64, edits ...func(*accrual.Session)) log {
	for range n {
		l = l.session(score, edits...)
	}
	return l
}

func (l log) signal(s accrual.Signal) log { return l.add(accrual.Entry{Signal: &s}) }

func (l log) cited(by accrual.Agent) log {
	return l.add(accrual.Entry{Cited: &accrual.Cited{By: by.String(), SignalID: "s"}})
}

func (l log) violation() log {
	return l.add(accrual.Entry{Violation: &accrual.Violation{Rule: "identical"}})
}

func (l log) accused(by accrual.Agent, outcome string) log {
	id := fmt.Sprint("d", len(l))
	return l.add(accrual.Entry{Dispute: &accrual.Dispute{ID: id, Outcome: outcome, Other: by.String(), About: "s" + id}})
}

func (l log) raised(against accrual.Agent, outcome string) log {
	id := fmt.Sprint("d", len(l))
	return l.add(
		accrual.Entry{Raised: &accrual.Raised{ID: id, Outcome: outcome, Other: against.String(), About: "s" + id}})
}

func (l log) add(e accrual.Entry) log {
	e.At = midnight + 60
	if len(l) > 0 {
		e.At = l[len(l)-1].At + 60
	}
	return append(slices.Clip(l), e)
}

func (l log) wait(seconds int64) log {
	l = slices.Clone(l)
	l[len(l)-1].At += seconds
	return l
}

func (l log) after(t testing.TB, days int64) accrual.Rating {
	t.Helper()
	return replayed(l).Rating(midnight + days*day)
}

func replayed(l log) *accrual.Account {
	a, err := accrual.Replay(worker, l, formulas)
	if err != nil {
		panic(err)
	}
	return a
}

var told = log{}.signal(whole)

func steady() log { return told.sessions(20, 50) }

// but returns inputs with other values of some fields, such as "Drawdown 0.01, RAP 1.5".
func but(i accrual.Inputs, changes string) accrual.Inputs {
	for change := range strings.SplitSeq(changes, ", ") {
		if name, text, ok := strings.Cut(change, " "); ok {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				panic(err)
			}
			reflect.ValueOf(&i).Elem().FieldByName(name).SetFloat(v)
		}
	}
	return i
}

var steadyInputs = accrual.Inputs{Transparency: 1, RAP: 1.666667, Adoption: 0.5, Survival: 0.5, Helpfulness: 0.5}

// TestInputs: what the golden vectors do not show.
func TestInputs(t *testing.T) {
	same := func(s *accrual.Session) { s.EventID = "e" }
	late := func(s *accrual.Session) { s.ID = "s" }
	none := func(s *accrual.Session) { s.Interactions, s.Hosts = 0, []string{} }
	wins, loses := accrual.TargetWins, accrual.ChallengerWins
	for name, row := range map[string]struct {
		of   log
		want string // see but
	}{
		"half of the outcomes 24 apart: no more than the score's own noise": {
			told.sessions(10, 38).sessions(10, 62), ""},
		"a fall by half that recovers": {told.sessions(10, 50).sessions(1, 40).sessions(9, 50),
			"Drawdown 0.01, RAP 1.625"},
		"RAP ends at 3": {told.sessions(20, 100), "RAP 3"},
		"what is older than 20 events counts no more": {told.sessions(9, 0).sessions(20, 50), ""},

		"late receipts of the second session": {
			steady().session(60, same).session(10, late, same).session(50, late, same), ""},
		"an interaction in the first session will do": {steady().session(80, same).session(40, none, same),
			"Drawdown 0.01, RAP 1.625"},
		"signals older than the last 20 count no more": {func() log {
			f := log{}.signal(accrual.Signal{ID: "s"}).sessions(20, 50)
			for range 20 {
				f = f.signal(whole)
			}
			return f
		}(), ""},

		"accused by its own owner, and wrong": {steady().accused(of("own"), loses),
			"Drawdown 1, RAP -2.5, Survival 0.333333"},
		"wrong twice": {steady().accused(of("1"), loses).accused(of("1"), loses), "Drawdown 1, RAP -2.5, Survival 0.25"},
		"it disputes two of one owner": {steady().raised(of("1"), loses).raised(of("1"), loses),
			"Helpfulness 0.52381"},
		"it disputes its own owner, and is wrong": {steady().raised(of("own"), wins), "Helpfulness 0.333333"},
		"cited twice by one owner":                {steady().cited(of("1")).cited(of("1")), "Adoption 0.52381"},
	} {
		t.Run(name, func(t *testing.T) {
			want := but(steadyInputs, row.want)
			got := row.of.after(t, 1)
			if row.of[len(row.of)-1].At >= midnight+day {
				t.Fatal("the history is longer than a day")
			}
			check.WantEqual(t, got.Inputs, want)
			check.WantEqual(t, got.Factors, want.Factors())
			check.WantEqual(t, got.Today, got.Factors.R())
		})
	}
}
