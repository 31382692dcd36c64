package rating

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/actionproof/mediator/reputation/accrual"
)

// Rating is the rating of an agent as of the last midnight, UTC, with every figure that it was computed from.
type Rating struct {
	// Measured says whether there is enough to rate the agent by. Otherwise Lacks says what there is too little of: "sessions", "signals".
	Measured bool     `json:"measured"`
	Lacks    []string `json:"lacks,omitempty"`
	AsOf     int64    `json:"as_of"` // Unix seconds: facts from then on do not count yet
	R        float64  `json:"r"`     // 0 to 100, by [accrual.Round]
	Tier     string   `json:"r_tier"`
	Today    float64  `json:"r_today"` // what follows from the factors alone: R goes towards it
	Steps    int64    `json:"steps"`   // how many days R has gone
	Factors  Factors  `json:"factors"`
	Inputs   Inputs   `json:"inputs"`
}

// maxDays bounds the days that a rating is computed over.
const maxDays = 40_000

// Rate returns the rating of an agent at a time, in Unix seconds, from all facts about it. Facts are taken in the order of their times, and
// those of one time in the order in which they are given. Sessions that were scored by other formulas than those with the hash do not count.
//
// R begins at 0 and makes one step at each midnight, from the first one on at which it can be measured. So it moves by at most [MaxStep]
// points a day, however many facts a day has, and an agent that begins anew gains nothing.
func Rate(agent accrual.Agent, facts []Fact, scoringHash string, at int64) (Rating, error) {
	for _, f := range facts {
		if err := f.check(); err != nil {
			return Rating{}, err
		}
	}
	facts = slices.Clone(facts)
	slices.SortStableFunc(facts, func(a, b Fact) int { return cmp.Compare(a.At, b.At) })
	rated := Rating{AsOf: max(0, at-at%day), Lacks: newHistory(agent, scoringHash).lacks()}
	if len(facts) == 0 {
		return rated, nil
	}
	first := facts[0].At - facts[0].At%day
	if (rated.AsOf-first)/day > maxDays {
		return Rating{}, fmt.Errorf("rating: the facts about %.80q are %d days old; a rating is over %d at most", agent, (rated.AsOf-first)/day, maxDays)
	}
	h := newHistory(agent, scoringHash)
	for midnight := first + day; midnight <= rated.AsOf; midnight += day {
		h.sleep()
		n := 0
		for n < len(facts) && facts[n].At < midnight {
			h.add(facts[n])
			n++
		}
		facts = facts[n:]
		if n > 0 {
			rated.see(h)
		}
		if rated.Measured {
			rated.step(h.spam)
		}
	}
	return rated, nil
}

// see computes the inputs from the facts.
func (r *Rating) see(h *history) {
	r.Lacks = h.lacks()
	if r.Measured = len(r.Lacks) == 0; r.Measured {
		r.Inputs = h.inputs()
	}
}

// step goes on by one day.
func (r *Rating) step(spam float64) {
	r.Inputs.Spam = accrual.Round(min(1, spam))
	r.Factors = r.Inputs.Factors()
	r.Today = r.Factors.R()
	r.R = Step(r.R, r.Today)
	r.Tier = Tier(r.R)
	r.Steps++
}
