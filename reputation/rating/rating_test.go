package rating_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/rating"
	"github.com/actionproof/mediator/test/check"
)

const (
	day      = int64(86_400)
	midnight = 20_000 * day
)

var (
	scoring = evidence.HashBytes([]byte("formulas"))
	agent   = of("own")
	whole   = accrual.Signal{ID: "s", Trace: true, Sources: true, Context: true, Verification: true, Timestamp: true,
		Schema: true}
)

func of(owner string) accrual.Agent {
	return accrual.Agent{Owner: strings.Repeat("o", 43-len(owner)) + owner, Subject: "agent:worker-1"}
}

var elsewhere = accrual.Agent{Subject: "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"}

type log []accrual.Entry

func (l log) session(score float64, edits ...func(*accrual.Session)) log {
	s := accrual.Session{ID: fmt.Sprint("ses_", len(l)), EventID: fmt.Sprint("evt_", len(l)), Score: score,
		ScoringHash: scoring, Interactions: 1, Hosts: []string{"m:443"}}
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

func (l log) after(t testing.TB, days int64) rating.Rating {
	t.Helper()
	a, err := accrual.NewAccount(agent)
	check.Must(t, err)
	for _, e := range l {
		if _, err := a.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	return rating.Replay(agent, l, scoring).Rating(midnight + days*day)
}

func steady() log { return log{}.signal(whole).sessions(20, 50) }

var steadyInputs = rating.Inputs{Transparency: 1, RAP: 1.666667, Adoption: 0.5, Survival: 0.5, Helpfulness: 0.5}

func TestInputs(t *testing.T) {
	host := func(name string) func(*accrual.Session) { return func(s *accrual.Session) { s.Hosts = []string{name} } }
	in := func(event string) func(*accrual.Session) { return func(s *accrual.Session) { s.EventID = event } }
	id := func(id string) func(*accrual.Session) { return func(s *accrual.Session) { s.ID = id } }
	none := func(s *accrual.Session) { s.Interactions, s.Hosts = 0, []string{} }
	other := func(s *accrual.Session) { s.ScoringHash = evidence.HashBytes([]byte("others")) }
	wins, loses, nobody := accrual.TargetWins, accrual.ChallengerWins, accrual.Inconclusive
	for name, row := range map[string]struct {
		of   log
		want func(*rating.Inputs)
	}{
		"steady": {steady(), func(*rating.Inputs) {}},

		// Sigma, drawdown, RAP, instability.
		"half of the outcomes 24 apart: no more than the score's own noise": {
			log{}.signal(whole).sessions(10, 38).sessions(10, 62), func(i *rating.Inputs) {}},
		"a spread beyond the noise": {log{}.signal(whole).sessions(10, 30).sessions(10, 70), func(i *rating.Inputs) {
			i.Sigma, i.RAP = 0.08, 1
		}},
		"the mean falls from the first ten to the last": {log{}.signal(whole).sessions(10, 62).sessions(10, 38),
			func(i *rating.Inputs) {
				i.Drawdown = 0.24
			}},
		"a fall by half that recovers": {log{}.signal(whole).sessions(10, 50).sessions(1, 40).sessions(9, 50),
			func(i *rating.Inputs) {
				i.Drawdown, i.RAP = 0.01, 1.625
			}},
		"a fall that recovers": {log{}.signal(whole).sessions(10, 60).sessions(3, 20).sessions(7, 70),
			func(i *rating.Inputs) {
				i.Sigma, i.Drawdown, i.RAP = 0.043936, 0.12, 1.677484
			}},
		"at the end of low confidence": {log{}.signal(whole).sessions(20, 30), func(i *rating.Inputs) {
			i.RAP = 0
		}},
		"no autonomy": {log{}.signal(whole).sessions(20, 0), func(i *rating.Inputs) {
			i.RAP = -2.5
		}},
		"RAP ends at 3": {log{}.signal(whole).sessions(20, 100), func(i *rating.Inputs) {
			i.RAP = 3
		}},
		"a jump of exactly 50": {log{}.signal(whole).sessions(19, 75).sessions(1, 25), func(i *rating.Inputs) {
			i.RAP, i.Drawdown = 3, 0.05
		}},
		"a jump above 50": {log{}.signal(whole).sessions(19, 75).sessions(1, 24.9), func(i *rating.Inputs) {
			i.RAP, i.Drawdown, i.Instability = 3, 0.0501, 0.052632
		}},
		"what is older than 20 events counts no more": {log{}.signal(whole).sessions(9, 0).sessions(20, 50),
			func(*rating.Inputs) {}},

		// What is an outcome.
		"an event counts once, by its lowest session": {steady().session(80, in("e")).session(50, in("e")),
			func(*rating.Inputs) {}},
		"late receipts replace a session": {steady().session(90, id("s"), in("e")).session(50, id("s"), in("e")),
			func(*rating.Inputs) {}},
		"late receipts that raise the score": {steady().session(10, id("s"), in("e")).session(50, id("s"), in("e")),
			func(*rating.Inputs) {}},
		"late receipts of the second session": {
			steady().session(60, in("e")).session(10, id("s"), in("e")).session(50, id("s"), in("e")), func(*rating.Inputs) {}},
		"an interaction in the first session will do": {steady().session(80, in("e")).session(40, none, in("e")),
			func(i *rating.Inputs) {
				i.Drawdown, i.RAP = 0.01, 1.625
			}},
		"an event without an interaction is none": {steady().session(99, none), func(*rating.Inputs) {}},
		"an interaction in the other session will do": {steady().session(40, none, in("e")).session(80, in("e")),
			func(i *rating.Inputs) {
				i.Drawdown, i.RAP = 0.01, 1.625
			}},
		"scores by other formulas": {steady().session(99, other), func(*rating.Inputs) {}},

		// Hosts of models.
		"another host": {steady().session(50, host("n:443")), func(i *rating.Inputs) { i.BandAbuse = 0.052632 }},
		"another host each time": {
			log{}.signal(whole).sessions(1, 50).session(50, host("1")).session(50, host("2")).sessions(17, 50),
			func(i *rating.Inputs) {
				i.BandAbuse = 0.157895
			}},
		"one host in common": {steady().session(50, func(s *accrual.Session) {
			s.Hosts = []string{"m:443", "n:443"}
		}), func(*rating.Inputs) {}},

		// Transparency.
		"half of the signals say nothing": {steady().signal(accrual.Signal{ID: "s", Schema: true}), func(i *rating.Inputs) {
			i.Transparency = 0.6
		}},
		"signals older than the last 20 count no more": {func() log {
			f := log{}.signal(accrual.Signal{ID: "s"}).sessions(20, 50)
			for range 20 {
				f = f.signal(whole)
			}
			return f
		}(), func(*rating.Inputs) {}},

		// Disputes.
		"accused, and right": {steady().accused(of("1"), wins), func(i *rating.Inputs) {
			i.Survival = 0.52381
		}},
		"accused by two agents of one owner": {steady().accused(of("1"), wins).accused(of("1"), wins),
			func(i *rating.Inputs) {
				i.Survival = 0.52381
			}},
		"accused by two owners": {steady().accused(of("1"), wins).accused(of("2"), wins), func(i *rating.Inputs) {
			i.Survival = 0.545455
		}},
		"accused by its own owner": {steady().accused(of("own"), wins), func(*rating.Inputs) {}},
		"accused from elsewhere":   {steady().accused(elsewhere, wins), func(*rating.Inputs) {}},
		"accused without a winner": {steady().accused(of("1"), nobody), func(*rating.Inputs) {}},
		"accused, and open": {steady().add(accrual.Entry{Dispute: &accrual.Dispute{ID: "d"}}),
			func(*rating.Inputs) {}},
		"accused, and wrong": {steady().accused(of("1"), loses), func(i *rating.Inputs) {
			i.Drawdown, i.RAP, i.Survival = 1, -2.5, 0.333333
		}},
		"accused by its own owner, and wrong": {steady().accused(of("own"), loses), func(i *rating.Inputs) {
			i.Drawdown, i.RAP, i.Survival = 1, -2.5, 0.333333
		}},
		"accused from elsewhere, and wrong": {steady().accused(elsewhere, loses), func(i *rating.Inputs) {
			i.Drawdown, i.RAP, i.Survival = 1, -2.5, 0.333333
		}},
		"wrong about one thing twice": {func() log {
			l := steady().accused(of("1"), loses).accused(of("2"), loses)
			l[len(l)-1].Dispute.About = l[len(l)-2].Dispute.About
			return l
		}(), func(i *rating.Inputs) { i.Drawdown, i.RAP, i.Survival = 1, -2.5, 0.333333 }},
		"wrong twice": {steady().accused(of("1"), loses).accused(of("1"), loses), func(i *rating.Inputs) {
			i.Drawdown, i.RAP, i.Survival = 1, -2.5, 0.25
		}},
		"wrong, and nineteen sessions since": {steady().accused(of("1"), loses).sessions(19, 50), func(i *rating.Inputs) {
			i.Drawdown, i.RAP, i.Survival = 1, 1.458333, 0.333333
		}},
		"wrong, and twenty sessions since": {steady().accused(of("1"), loses).sessions(20, 50), func(i *rating.Inputs) {
			i.Survival = 0.333333
		}},
		"it disputes, and is right": {steady().raised(of("1"), loses), func(i *rating.Inputs) {
			i.Helpfulness = 0.52381
		}},
		"it disputes two of one owner": {steady().raised(of("1"), loses).raised(of("1"), loses), func(i *rating.Inputs) {
			i.Helpfulness = 0.52381
		}},
		"it disputes one of its own owner": {steady().raised(of("own"), loses), func(*rating.Inputs) {}},
		"it disputes one elsewhere":        {steady().raised(elsewhere, loses), func(*rating.Inputs) {}},
		"it disputes, and is wrong": {steady().raised(of("1"), wins), func(i *rating.Inputs) {
			i.Helpfulness = 0.333333
		}},
		"it disputes its own owner, and is wrong": {steady().raised(of("own"), wins), func(i *rating.Inputs) {
			i.Helpfulness = 0.333333
		}},
		"it disputes without a winner": {steady().raised(of("1"), nobody), func(*rating.Inputs) {}},

		// Adoption.
		"cited": {steady().cited(of("1")), func(i *rating.Inputs) { i.Adoption = 0.52381 }},
		"cited twice by one owner": {steady().cited(of("1")).cited(of("1")), func(i *rating.Inputs) {
			i.Adoption = 0.52381
		}},
		"cited by two owners": {steady().cited(of("1")).cited(of("2")), func(i *rating.Inputs) {
			i.Adoption = 0.545455
		}},
		"cited by its own owner":    {steady().cited(of("own")), func(*rating.Inputs) {}},
		"cited by agents elsewhere": {steady().cited(elsewhere), func(*rating.Inputs) {}},
	} {
		t.Run(name, func(t *testing.T) {
			want := steadyInputs
			row.want(&want)
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
