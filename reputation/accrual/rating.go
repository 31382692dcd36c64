package accrual

import (
	"errors"
	"math"
)

// Rating is R, seed 002's rating of an agent that publishes signals, at the last midnight, UTC, with all figures behind
// it. It is independent of the score.
//
// R starts at 0 and makes one step at each midnight once it can be measured. So it moves by at most [MaxStep] points a
// day, and starting over gains an agent nothing.
type Rating struct {
	// Measured says that enough is known. Otherwise Lacks names what is missing: "sessions", "signals".
	Measured bool     `json:"measured"`
	Lacks    []string `json:"lacks,omitempty"`
	AsOf     int64    `json:"as_of"` // Unix seconds; later entries do not count yet
	R        float64  `json:"r"`     // 0 to 100, by [Round]
	Tier     string   `json:"r_tier"`
	Today    float64  `json:"r_today"` // R by today's factors alone, towards which R moves
	Steps    int64    `json:"steps"`   // number of daily steps
	Factors  Factors  `json:"factors"`
	Inputs   Inputs   `json:"inputs"`
}

// reach takes an older time than the last entry's as that one's.
func (a *Account) reach(at int64) {
	if at < a.last-2*day { // the node's clock was wrong and has been set back
		a.last, a.rating.AsOf = at, midnight(at)
		a.spamAt, a.day = min(a.spamAt, at), min(a.day, midnight(at))
	}
	if a.last == 0 {
		a.rating.AsOf = midnight(at)
	}
	a.last = max(a.last, at)
	a.advance(midnight(a.last))
}

// Rating returns the rating at a time in Unix seconds, at or after the last entry.
func (a *Account) Rating(at int64) Rating {
	then := *a
	then.advance(midnight(at))
	return then.rating
}

func midnight(at int64) int64 { return at - at%day }

func (a *Account) advance(to int64) {
	for settled := false; a.rating.AsOf < to; {
		if settled || !a.changed && !a.rating.Measured { // nothing changes any more
			if a.rating.Measured {
				a.rating.Steps += (to - a.rating.AsOf) / day
			}
			a.rating.AsOf = to
			return
		}
		a.rating.AsOf += day
		if a.changed {
			a.changed, a.rating.Lacks = false, a.lacks()
			if a.rating.Measured = len(a.rating.Lacks) == 0; a.rating.Measured {
				a.rating.Inputs = a.inputs()
			}
		}
		if a.rating.Measured {
			settled = a.step()
		}
	}
}

// step makes one daily step and reports whether further ones would change nothing.
func (a *Account) step() (settled bool) {
	r := &a.rating
	before := r.R
	r.Inputs.Spam = Round(math.Min(1, a.spamOf(r.AsOf)))
	r.Factors = r.Inputs.Factors()
	r.Today = r.Factors.R()
	r.R = Step(r.R, r.Today)
	r.Tier = RatingTier(r.R)
	r.Steps++
	return r.R == before && r.Inputs.Spam == 0
}

// Rated is seed 002's rating of an agent: see [Rating].
type Rated struct {
	R    float64 `json:"r" form:"rounded:100"`
	Q    float64 `json:"q" form:"rounded:3"` // penalty, at most MaxQ
	Tier string  `json:"r_tier"`
}

// MaxQ is the greatest Q: three parts of at most 1.
const MaxQ = 3

// ratingTiers are the tiers of a rating (seed 002), highest first. They are unrelated to the tiers of a score.
var ratingTiers = []struct {
	name string
	from float64
}{{"S", 85}, {"A", 70}, {"B", 55}, {"C", 40}, {"D", 0}}

// Rated returns what tokens have of a rating, or nil if it is not measured.
func (r Rating) Rated() *Rated {
	if !r.Measured {
		return nil
	}
	return &Rated{r.R, r.Factors.Q, r.Tier}
}

// RatingTier returns the tier of a rating, from S (highest) to D.
func RatingTier(r float64) string {
	for _, t := range ratingTiers {
		if r >= t.from {
			return t.name
		}
	}
	return ratingTiers[len(ratingTiers)-1].name
}

func (r Rated) Check() error {
	if r.Tier != RatingTier(r.R) {
		return errors.New("rating.r_tier does not follow from rating.r")
	}
	return nil
}
