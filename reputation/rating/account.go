package rating

import (
	"math"

	"github.com/actionproof/mediator/reputation/accrual"
)

// Rating is an agent's rating at the last midnight, UTC, with all figures behind it.
type Rating struct {
	// Measured says that enough is known. Otherwise Lacks names what is missing: "sessions", "signals".
	Measured bool     `json:"measured"`
	Lacks    []string `json:"lacks,omitempty"`
	AsOf     int64    `json:"as_of"` // Unix seconds; later entries do not count yet
	R        float64  `json:"r"`     // 0 to 100, by [accrual.Round]
	Tier     string   `json:"r_tier"`
	Today    float64  `json:"r_today"` // R by today's factors alone, towards which R moves
	Steps    int64    `json:"steps"`   // number of daily steps
	Factors  Factors  `json:"factors"`
	Inputs   Inputs   `json:"inputs"`
}

// Account is the log of one agent; its rating and its reputation follow from it. It is not safe for concurrent use.
//
// R starts at 0 and makes one step at each midnight once it can be measured. So it moves by at most [MaxStep] points a
// day, and starting over gains an agent nothing.
type Account struct {
	*accrual.Account
	history
	rated   Rating
	changed bool  // since the last midnight
	last    int64 // time of the last entry
}

// NewAccount returns the empty log of an agent. Only sessions scored by the formulas with scoringHash count.
func NewAccount(agent accrual.Agent, scoringHash string) (*Account, error) {
	log, err := accrual.NewAccount(agent)
	if err != nil {
		return nil, err
	}
	a := &Account{Account: log, history: history{agent: agent, scoringHash: scoringHash, citedBy: make(owners)}}
	a.rated.Lacks = a.lacks()
	return a, nil
}

// Replay returns the account of a whole log.
func Replay(agent accrual.Agent, entries []accrual.Entry, scoringHash string) (*Account, error) {
	a, err := NewAccount(agent, scoringHash)
	for _, e := range entries {
		if err == nil {
			_, err = a.Add(e)
		}
	}
	return a, err
}

// Add is [accrual.Account.Add]. For the rating, an entry older than the last counts as of the last's time; if it is
// older by more than two days, the node's clock was wrong and has been set back.
func (a *Account) Add(e accrual.Entry) (added bool, err error) {
	before := *a
	a.reach(e.At)
	if added, err = a.Account.Add(e); err != nil || !added {
		*a = before
		return added, err
	}
	a.add(e, a.last)
	a.changed = true
	return true, nil
}

func (a *Account) reach(at int64) {
	if at < a.last-2*day {
		a.last, a.rated.AsOf = at, midnight(at)
		a.spamAt, a.day = min(a.spamAt, at), min(a.day, midnight(at))
	}
	if a.last == 0 {
		a.rated.AsOf = midnight(at)
	}
	a.last = max(a.last, at)
	a.advance(midnight(a.last))
}

// Rating returns the rating at a time in Unix seconds, at or after the last entry.
func (a *Account) Rating(at int64) Rating {
	then := *a
	then.advance(midnight(at))
	return then.rated
}

func midnight(at int64) int64 { return at - at%day }

func (a *Account) advance(to int64) {
	for settled := false; a.rated.AsOf < to; {
		if settled || !a.changed && !a.rated.Measured { // nothing changes any more
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

func (a *Account) see() {
	a.changed = false
	a.rated.Lacks = a.lacks()
	if a.rated.Measured = len(a.rated.Lacks) == 0; a.rated.Measured {
		a.rated.Inputs = a.inputs()
	}
}

// step makes one daily step and reports whether further ones would change nothing.
func (a *Account) step() (settled bool) {
	r := &a.rated
	before := r.R
	r.Inputs.Spam = accrual.Round(math.Min(1, a.spamOf(r.AsOf)))
	r.Factors = r.Inputs.Factors()
	r.Today = r.Factors.R()
	r.R = Step(r.R, r.Today)
	r.Tier = accrual.RatingTier(r.R)
	r.Steps++
	return r.R == before && r.Inputs.Spam == 0
}
