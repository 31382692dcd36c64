package accrual

import "errors"

// Rated is seed 002's rating of an agent, which package rating computes. It stands beside the score and never has a part in it.
type Rated struct {
	R    float64 `json:"r"`      // 0 to 100
	Q    float64 `json:"q"`      // what the agent's breaches of rules come to: 0 to MaxQ
	Tier string  `json:"r_tier"` // [RatingTier] of R
}

// MaxQ is the most that Q can be: three parts of at most 1.
const MaxQ = 3

// ratingTiers are the tiers of a rating and where they begin, the highest first (seed 002). They have nothing to do with the tiers of a score.
var ratingTiers = []struct {
	name string
	from float64
}{{"S", 85}, {"A", 70}, {"B", 55}, {"C", 40}, {"D", 0}}

// RatingTier returns the tier of a rating, a letter from S, the highest, to D.
func RatingTier(r float64) string {
	for _, t := range ratingTiers {
		if r >= t.from {
			return t.name
		}
	}
	return ratingTiers[len(ratingTiers)-1].name
}

// check refuses what is no rating.
func (r *Rated) check() error {
	switch {
	case r == nil:
		return nil
	case !within(r.R, 100) || !within(r.Q, MaxQ):
		return errors.New("rating.r is not from 0 to 100, or rating.q not from 0 to 3")
	case r.Tier != RatingTier(r.R):
		return errors.New("rating.r_tier does not follow from rating.r")
	}
	return nil
}
