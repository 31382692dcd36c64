package rating_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/rating"
	"github.com/actionproof/mediator/test/check"
)

// TestNotMeasured: without outcomes or signals there is no rating, and it says what is missing.
func TestNotMeasured(t *testing.T) {
	both := []string{"sessions", "signals"}
	for name, row := range map[string]struct {
		of   facts
		want []string
	}{
		"nothing":                 {nil, both},
		"nine sessions":           {facts{}.signal(whole).sessions(9, 50), []string{"sessions"}},
		"ten sessions":            {facts{}.signal(whole).sessions(10, 50), nil},
		"no signal":               {facts{}.sessions(20, 50), []string{"signals"}},
		"a signal alone":          {facts{}.signal(whole), []string{"sessions"}},
		"sessions without a call": {facts{}.signal(whole).sessions(20, 50, func(s *accrual.Session) { s.Interactions, s.Hosts = 0, []string{} }), []string{"sessions"}},
		"a violation alone":       {facts{}.violation(), both},
		"disputes alone":          {facts{}.accused(of("1"), accrual.TargetWins), both},
	} {
		t.Run(name, func(t *testing.T) {
			got := row.of.after(t, 3)
			check.WantEqual(t, got.Measured, row.want == nil)
			check.WantEqual(t, fmt.Sprint(got.Lacks), fmt.Sprint(row.want))
			if !got.Measured && (got.R != 0 || got.Tier != "" || got.Steps != 0 || got.Factors != rating.Factors{}) {
				t.Errorf("it is rated nevertheless: %+v", got)
			}
		})
	}
}

// TestDays: R begins at 0, goes one step at each midnight from the first one on at which it can be measured, and a day's facts count from its end on.
func TestDays(t *testing.T) {
	f := steady().wait(2 * day) // its last session comes on the third day: ten outcomes are there on the first
	for after, want := range map[int64]float64{0: 0, 1: 0.15, 2: 0.2775, 3: 0.385875} {
		got := f.after(t, after)
		if steps := got.Steps; steps != after || got.AsOf != midnight+after*day {
			t.Errorf("after %d days there were %d steps, as of %d", after, steps, got.AsOf)
		}
		if r := got.Today * want; after > 0 && math.Abs(got.R-r) > 1e-5 {
			t.Errorf("after %d days R is %v, want %v", after, got.R, r)
		}
	}
	late, err := rating.Rate(agent, f, scoring, midnight+2*day-1)
	check.Must(t, err)
	check.WantEqual(t, late.R, f.after(t, 1).R)
	if end := f.after(t, 400); math.Abs(end.R-end.Today) > 1e-4 {
		t.Errorf("R ends at %v, not at %v", end.R, end.Today)
	}
}

// TestStaysMeasured: an agent that does nothing any more keeps its rating, so a bad one cannot be waited away.
func TestStaysMeasured(t *testing.T) {
	lost := steady().accused(of("1"), accrual.ChallengerWins)
	for _, days := range []int64{1, 100, 1000} {
		got := lost.after(t, days)
		if !got.Measured || got.Inputs.Drawdown != 1 || got.R > 2 {
			t.Errorf("after %d days without a session: %+v", days, got)
		}
	}
}

// TestSpam: a breach of a rule adds 0.25 to Q, half of it is gone after seven days, and Q takes no more than 1.
func TestSpam(t *testing.T) {
	f := steady()
	first := f[0].At
	breach := func(n int, seconds int64) facts {
		g := slices.Clone(f)
		for range n {
			g = append(g, rating.Fact{At: first + seconds, Violation: "identical"})
		}
		return g
	}
	for name, row := range map[string]struct {
		of    facts
		after int64
		want  float64
	}{
		"none":                           {f, 1, 0},
		"one, a day ago":                 {breach(1, 0), 1, 0.226431},
		"one, a second ago":              {breach(1, day-1), 1, 0.25},
		"one, a week and a day ago":      {breach(1, 0), 8, 0.113215},
		"one, a week ago":                {breach(1, day-1), 8, 0.125},
		"one, two weeks ago":             {breach(1, day-1), 15, 0.0625},
		"two":                            {breach(2, day-1), 1, 0.5},
		"four":                           {breach(4, day-1), 1, 1},
		"five":                           {breach(5, day-1), 1, 1},
		"eight, a week ago":              {breach(8, day-1), 8, 1},
		"eight, two weeks ago":           {breach(8, day-1), 15, 0.5},
		"one today counts from midnight": {breach(1, day), 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := row.of.after(t, row.after)
			if math.Abs(got.Inputs.Spam-row.want) > 2e-6 || got.Factors.Q != got.Inputs.Spam {
				t.Errorf("spam %v, Q %v, want %v", got.Inputs.Spam, got.Factors.Q, row.want)
			}
		})
	}
}

// TestFactsThatNobodyKnows: what says nothing, two things, or something impossible is refused.
func TestFactsThatNobodyKnows(t *testing.T) {
	s := accrual.Session{ID: "s", EventID: "e", Score: 50, ScoringHash: scoring}
	scored := func(score float64) rating.Fact { s := s; s.Score = score; return rating.Fact{At: 1, Session: &s} }
	for name, f := range map[string]rating.Fact{
		"nothing": {At: 1}, "no time": {Session: &s}, "a time before all": {At: -1, Session: &s}, "two things": {At: 1, Session: &s, Violation: "identical"},
		"a score below 0": scored(-1), "a score above 100": scored(101), "no score": scored(math.NaN()),
		"another outcome": {At: 1, Dispute: &rating.Dispute{ID: "d", Outcome: "draw"}}, "an open dispute": {At: 1, Dispute: &rating.Dispute{ID: "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := rating.Rate(agent, facts{f}, scoring, midnight); err == nil {
				t.Errorf("it is rated: %+v", r)
			}
		})
	}
	if _, err := rating.Rate(agent, facts{{At: 1, Violation: "identical"}}, scoring, math.MaxInt64); err == nil {
		t.Error("a rating over all time is computed")
	}
}

// random returns the history of an agent that nobody has disputed.
func random(r *rand.Rand) facts {
	f := facts{}
	for range 10 + r.IntN(100) {
		switch r.IntN(8) {
		case 0:
			f = f.signal(rating.Checklist{Trace: r.IntN(2) == 0, Context: true, Verification: r.IntN(4) > 0, Schema: true})
		case 1:
			f = f.violation()
		default:
			f = f.session(100 * r.Float64())
		}
		f = f.wait(r.Int64N(day / 2))
	}
	return f
}

// attacked adds disputes of k agents at any times, which the agent wins if it is right, and else loses.
func attacked(r *rand.Rand, f facts, k int, right bool) facts {
	outcome := accrual.ChallengerWins
	if right {
		outcome = accrual.TargetWins
	}
	g := slices.Clone(f)
	for i := range r.IntN(20 * k) {
		g = append(g, rating.Fact{At: f[r.IntN(len(f))].At, Dispute: &rating.Dispute{
			ID: fmt.Sprint("d", i), About: fmt.Sprint("s", i), Other: of(fmt.Sprint(r.IntN(k))), Outcome: outcome,
		}})
	}
	return g
}

// TestThirdAgents: whatever k agents do, R of an agent that is right never falls by it, and rises by no more than what k owners are worth in V. R of one
// that is wrong falls by at most 8 points a day. A dispute that it is no party of is no fact about it.
func TestThirdAgents(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 21))
		f := random(r)
		k := 1 + r.IntN(12)
		right, wrong := attacked(r, f, k, true), attacked(r, f, k, false)
		// V without is 0.5; k owners move S to (10 + k)/(20 + k).
		bound := (0.5 + 0.45*(float64(10+k)/float64(20+k)-0.5)) / 0.5
		last := (f[len(f)-1].At-midnight)/day + 1
		before := rating.Rating{}
		for after := range last + 10 {
			without, with, fallen := f.after(t, after), right.after(t, after), wrong.after(t, after)
			if with.R < without.R || with.R > without.R*bound+1e-4 {
				t.Fatalf("seed %d, day %d: disputes of %d owners move R from %v to %v", seed, after, k, without.R, with.R)
			}
			if fallen.R < before.R-rating.MaxStep || fallen.R > without.R+1e-4 {
				t.Fatalf("seed %d, day %d: R falls from %v to %v, and is %v without disputes", seed, after, before.R, fallen.R, without.R)
			}
			before = fallen
		}
	}
}

// TestOrder: the same facts give the same rating, in whatever order they are given, as long as those of one time keep theirs. What is not about
// sessions may be in any order within a day.
func TestOrder(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 22))
		f := attacked(r, random(r), 3, seed%2 == 0)
		last := (f[len(f)-1].At-midnight)/day + 60
		want := f.after(t, last)
		byTime := slices.Clone(f)
		slices.SortStableFunc(byTime, func(a, b rating.Fact) int { return int(a.At - b.At) })
		check.WantEqual(t, fmt.Sprintf("%+v", byTime.after(t, last)), fmt.Sprintf("%+v", want))

		if seed%2 == 1 {
			continue // a lost dispute flags the sessions before it
		}
		moved := slices.Clone(f)
		for i := range moved {
			if moved[i].Dispute != nil || moved[i].Signal != nil {
				moved[i].At += day - 1 - moved[i].At%day // to the end of its day
			}
		}
		check.WantEqual(t, fmt.Sprintf("%+v", moved.after(t, last)), fmt.Sprintf("%+v", want))
	}
}

// TestRatesInBounds: each figure of every rating is within its bounds, and follows from those before it.
func TestRatesInBounds(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 23))
		f := attacked(r, random(r), 5, r.IntN(2) == 0)
		before := 0.0
		for after := range int64(60) {
			got := f.after(t, after)
			i := got.Inputs
			for name, v := range map[string]float64{
				"sigma": i.Sigma, "drawdown": i.Drawdown, "transparency": i.Transparency, "U": i.Adoption, "S": i.Survival, "H": i.Helpfulness,
				"instability": i.Instability, "band abuse": i.BandAbuse, "spam": i.Spam, "C": got.Factors.C, "T": got.Factors.T, "P": got.Factors.P, "V": got.Factors.V,
				"Q / 3": got.Factors.Q / 3, "R / 100": got.R / 100,
			} {
				if !(v >= 0 && v <= 1) {
					t.Fatalf("seed %d: %s is %v", seed, name, v)
				}
			}
			if got.Measured && (got.Factors != i.Factors() || got.Today != got.Factors.R() || got.R != rating.Step(before, got.Today) || got.Tier != rating.Tier(got.R)) {
				t.Fatalf("seed %d: the figures do not follow from each other: %+v", seed, got)
			}
			before = got.R
		}
	}
}
