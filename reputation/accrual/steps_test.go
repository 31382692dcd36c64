package accrual_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
)

func TestNotMeasured(t *testing.T) {
	both := []string{"sessions", "signals"}
	for name, row := range map[string]struct {
		of   log
		want []string
	}{
		"nothing": {nil, both},
		"sessions without a call": {told.sessions(20, 50, func(s *accrual.Session) {
			s.Interactions, s.Hosts = 0, []string{}
		}), []string{"sessions"}},
		"a violation alone": {log{}.violation(), both},
		"disputes alone":    {log{}.accused(of("1"), accrual.TargetWins), both},
	} {
		t.Run(name, func(t *testing.T) {
			got := row.of.after(t, 3)
			check.WantEqual(t, got.Measured, false)
			check.WantEqual(t, fmt.Sprint(got.Lacks), fmt.Sprint(row.want))
			if got.R != 0 || got.Tier != "" || got.Steps != 0 || got.Factors != (accrual.Factors{}) {
				t.Errorf("it is rated nevertheless: %+v", got)
			}
		})
	}
}

func TestStaysMeasured(t *testing.T) {
	lost := steady().accused(of("1"), accrual.ChallengerWins)
	for _, days := range []int64{1, 100, 1000} {
		got := lost.after(t, days)
		if !got.Measured || got.Inputs.Drawdown != 1 || got.R > 2 {
			t.Errorf("after %d days without a session: %+v", days, got)
		}
	}
}

func randomly(r *rand.Rand) log {
	l := log{}
	for range 10 + r.IntN(100) {
		switch r.IntN(8) {
		case 0:
			l = l.signal(
				accrual.Signal{ID: "s", Trace: r.IntN(2) == 0, Context: true, Verification: r.IntN(4) > 0, Schema: true})
		case 1:
			l = l.violation()
		default:
			l = l.session(math.Round(100 * r.Float64()))
		}
		l = l.wait(r.Int64N(day / 2))
	}
	return l
}

func attacked(r *rand.Rand, l log, k int, right bool) log {
	outcome := accrual.ChallengerWins
	if right {
		outcome = accrual.TargetWins
	}
	all := slices.Clone(l)
	for i := range r.IntN(20 * k) {
		by := of(fmt.Sprint(r.IntN(k))).String()
		e := accrual.Entry{At: l[r.IntN(len(l))].At,
			Dispute: &accrual.Dispute{ID: fmt.Sprint("d", i), About: fmt.Sprint("s", i), Other: by, Outcome: outcome}}
		if right && i%3 == 0 {
			e.Dispute, e.Cited = nil, &accrual.Cited{By: by, SignalID: "s"}
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b accrual.Entry) int { return int(a.At - b.At) })
	return all
}

func TestThirdAgents(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 21))
		l := randomly(r)
		k := 1 + r.IntN(12)
		right, wrong := attacked(r, l, k, true), attacked(r, l, k, false)
		// V without is 0.5; k owners move U and S to (10 + k)/(20 + k).
		bound := (0.5 + 0.80*(float64(10+k)/float64(20+k)-0.5)) / 0.5
		last := (l[len(l)-1].At-midnight)/day + 1
		before := accrual.Rating{}
		agent, correct, mistaken := grow(l), grow(right), grow(wrong)
		for after := last % 3; after < last+10; after++ {
			without, with, fallen := agent.upTo(after), correct.upTo(after), mistaken.upTo(after)
			if with.R < without.R || with.R > without.R*bound+1e-4 {
				t.Fatalf("seed %d, day %d: disputes of %d owners move R from %v to %v", seed, after, k, without.R, with.R)
			}
			if fallen.R < before.R-accrual.MaxStep || fallen.R > without.R+1e-4 {
				t.Fatalf("seed %d, day %d: R falls from %v to %v, and is %v without disputes", seed, after, before.R, fallen.R,
					without.R)
			}
			before = fallen
		}
	}
}

// growing is an account to which the entries of a log are added as the days go by. TestRatingsAreReplayed shows that it
// is rated like a replay of what it holds, which takes far longer each day.
type growing struct {
	*accrual.Account
	rest log
}

func grow(l log) *growing { return &growing{replayed(nil), l} }

func (g *growing) upTo(days int64) accrual.Rating {
	for ; len(g.rest) > 0 && g.rest[0].At < midnight+days*day; g.rest = g.rest[1:] {
		if _, err := g.Add(g.rest[0]); err != nil {
			panic(err)
		}
	}
	return g.Rating(midnight + days*day)
}

func TestRatingsAreReplayed(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 22))
		l := attacked(r, randomly(r), 3, seed%2 == 0)
		end := l[len(l)-1].At + r.Int64N(100*day)
		want := replayed(l).Rating(end)
		a := replayed(nil)
		for _, e := range l {
			a.Rating(e.At + r.Int64N(9*day)) // changes nothing
			a.Add(e)
		}
		check.WantEqual(t, fmt.Sprintf("%+v", a.Rating(end)), fmt.Sprintf("%+v", want))

		if seed%2 == 1 {
			continue
		}
		moved := slices.Clone(l)
		slices.SortStableFunc(moved, func(a, b accrual.Entry) int {
			if a.At/day != b.At/day || (a.Session != nil) == (b.Session != nil) {
				return int(a.At - b.At)
			}
			if a.Session != nil {
				return -1
			}
			return 1
		})
		got := replayed(moved).Rating(end)
		got.Inputs.Spam = want.Inputs.Spam // a violation counts from another time of the day
		check.WantEqual(t, fmt.Sprintf("%+v", got.Inputs), fmt.Sprintf("%+v", want.Inputs))
	}
}

func TestClocks(t *testing.T) {
	l := steady().wait(day).violation()
	early, same := slices.Clone(l), slices.Clone(l)
	early[len(l)-1].At = midnight
	same[len(l)-1].At = l[len(l)-2].At
	check.WantEqual(t, fmt.Sprintf("%+v", early.after(t, 5)), fmt.Sprintf("%+v", same.after(t, 5)))
	if early.after(t, 0).Steps != 1 {
		t.Errorf("a rating of a time before the last entry: %+v", early.after(t, 0))
	}
}

// After a wrong clock has been set back, R moves on from day to day.
func TestClockSetBack(t *testing.T) {
	l := steady().wait(400 * day).violation()
	l = append(l, steady().wait(day).accused(of("1"), accrual.ChallengerWins)[len(l)-1])
	before, after := replayed(l[:len(l)-1]).Rating(0), l.after(t, 30)
	if before.AsOf < midnight+400*day || after.AsOf != midnight+30*day || after.R > before.R/4 ||
		after.Inputs.Drawdown != 1 {
		t.Errorf("%+v, then %+v", before, after)
	}
}

// A day of an agent without a sidecar that a wrong clock has dated in the future keeps out no later day.
func TestDayAfterSetBack(t *testing.T) {
	key := accrual.Agent{Subject: "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"}
	closed := accrual.Signal{ID: "s", Verification: true}
	a, err := accrual.NewAccount(key, formulas)
	check.Must(t, err)
	a.Add(accrual.Entry{At: midnight + 400*day, Signal: &closed})
	for d := range int64(30) {
		a.Add(accrual.Entry{At: midnight + d*day, Signal: &closed})
	}
	if got := a.Rating(midnight + 31*day); !got.Measured {
		t.Errorf("%+v", got)
	}
}

func TestSpamOfNothing(t *testing.T) {
	l := log{}.signal(accrual.Signal{ID: "s"}).sessions(20, 50).violation()
	l[len(l)-1].At = midnight + day - 1
	for days, want := range map[int64]float64{1: 0.25, 8: 0.125, 15: 0.0625} {
		if got := l.after(t, days); got.R != 0 || math.Abs(got.Inputs.Spam-want) > 2e-6 || got.Steps != days {
			t.Errorf("after %d days: %+v, want the penalty %v", days, got, want)
		}
	}
}

func TestLongSilence(t *testing.T) {
	for name, l := range map[string]log{"rated": steady().violation(), "not rated": log{}.violation(), "nothing": nil} {
		a := replayed(l)
		far := a.Rating(1 << 53)
		if near := a.Rating(midnight + 2000*day); far.R != near.R || far.Inputs != near.Inputs ||
			far.AsOf != (1<<53)-(1<<53)%day || far.Measured && far.Steps != (far.AsOf-midnight)/day {
			t.Errorf("%s: after 2000 days %+v, at the end of time %+v", name, near, far)
		}
	}
}

func TestRatesInBounds(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 23))
		agent := grow(attacked(r, randomly(r), 5, r.IntN(2) == 0))
		before := 0.0
		for after := range int64(60) {
			got := agent.upTo(after)
			i := got.Inputs
			for name, v := range map[string]float64{
				"sigma": i.Sigma, "drawdown": i.Drawdown, "transparency": i.Transparency, "U": i.Adoption, "S": i.Survival,
				"H":           i.Helpfulness,
				"instability": i.Instability, "band abuse": i.BandAbuse, "spam": i.Spam, "C": got.Factors.C, "T": got.Factors.T,
				"P": got.Factors.P, "V": got.Factors.V,
				"Q / 3": got.Factors.Q / 3, "R / 100": got.R / 100,
			} {
				if !(v >= 0 && v <= 1) {
					t.Fatalf("seed %d: %s is %v", seed, name, v)
				}
			}
			if got.Measured &&
				(got.Factors != i.Factors() || got.Today != got.Factors.R() || got.R != accrual.Step(before, got.Today) ||
					got.Tier != accrual.RatingTier(got.R)) {
				t.Fatalf("seed %d: the figures do not follow from each other: %+v", seed, got)
			}
			before = got.R
		}
	}
}
