package rating

import (
	"math"

	"github.com/actionproof/mediator/reputation/accrual"
)

// Rating is the rating of an agent as of the last midnight, UTC, with every figure that it was computed from.
type Rating struct {
	// Measured says whether there is enough to rate the agent by. Otherwise Lacks says what there is too little of: "sessions", "signals".
	Measured bool     `json:"measured"`
	Lacks    []string `json:"lacks,omitempty"`
	AsOf     int64    `json:"as_of"` // Unix seconds: what comes from then on does not count yet
	R        float64  `json:"r"`     // 0 to 100, by [accrual.Round]
	Tier     string   `json:"r_tier"`
	Today    float64  `json:"r_today"` // what follows from the factors alone: R goes towards it
	Steps    int64    `json:"steps"`   // how many days R has gone
	Factors  Factors  `json:"factors"`
	Inputs   Inputs   `json:"inputs"`
}

// Account is the log of one agent, as far as it was read. Its rating follows from it. An Account is not safe for concurrent use.
//
// R begins at 0 and makes one step at each midnight, from the first one on at which it can be measured. So it moves by at most [MaxStep] points a
// day, however much happens on a day, and an agent that begins anew gains nothing at first.
type Account struct {
	history *history
	rated   Rating
	changed bool  // the history has, since the last midnight
	last    int64 // time of the last entry
}

// NewAccount returns the empty log of an agent. Sessions that were scored by other formulas than those with the hash do not count.
func NewAccount(agent accrual.Agent, scoringHash string) *Account {
	h := newHistory(agent, scoringHash)
	return &Account{history: h, rated: Rating{Lacks: h.lacks()}}
}

// Replay returns the account of a whole log, which package accrual has replayed too.
func Replay(agent accrual.Agent, entries []accrual.Entry, scoringHash string) *Account {
	a := NewAccount(agent, scoringHash)
	for _, e := range entries {
		a.Add(e)
	}
	return a
}

// Add takes in the next entry of the log: one that [accrual.Account.Add] has added. An entry with a time before that of the last one counts as of
// the same time.
func (a *Account) Add(e accrual.Entry) {
	if a.last == 0 {
		a.rated.AsOf = midnight(e.At)
	}
	a.last = max(a.last, e.At)
	a.advance(midnight(a.last))
	a.history.add(e, a.last)
	a.changed = true
}

// Rating returns the rating at a time, in Unix seconds, which is not before the last entry's.
func (a *Account) Rating(at int64) Rating {
	then := *a
	then.advance(midnight(at))
	return then.rated
}

// midnight returns the last one up to a time.
func midnight(at int64) int64 { return at - at%day }

// advance goes on to a midnight.
func (a *Account) advance(to int64) {
	for settled := false; a.rated.AsOf < to; {
		if settled || !a.changed && !a.rated.Measured { // nothing happens any more
			if a.rated.Measured {
				a.rated.Steps += (to - a.rated.AsOf) / day
			}
			a.rated.AsOf = to
			return
		}
		a.rated.AsOf += day
		if a.changed {
			a.see()
		}
		if a.rated.Measured {
			settled = a.step()
		}
	}
}

// see computes the inputs anew.
func (a *Account) see() {
	a.changed = false
	a.rated.Lacks = a.history.lacks()
	if a.rated.Measured = len(a.rated.Lacks) == 0; a.rated.Measured {
		a.rated.Inputs = a.history.inputs()
	}
}

// step goes on by one day, and reports whether the next ones would change nothing.
func (a *Account) step() (settled bool) {
	r := &a.rated
	before := r.R
	r.Inputs.Spam = accrual.Round(math.Min(1, a.history.spamOf(r.AsOf)))
	r.Factors = r.Inputs.Factors()
	r.Today = r.Factors.R()
	r.R = Step(r.R, r.Today)
	r.Tier = accrual.RatingTier(r.R)
	r.Steps++
	return r.R == before && r.Inputs.Spam == 0
}
