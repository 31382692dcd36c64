package accrual

import "errors"

// Rated is seed 002's rating of an agent, computed by package rating. It is independent of the score.
type Rated struct {
	R    float64 `json:"r"` // 0 to 100
	Q    float64 `json:"q"` // penalty, 0 to MaxQ
	Tier string  `json:"r_tier"`
}

// MaxQ is the greatest Q: three parts of at most 1.
const MaxQ = 3

// ratingTiers are the tiers of a rating (seed 002), highest first. They are unrelated to the tiers of a score.
var ratingTiers = []struct {
	name string
	from float64
}{{"S", 85}, {"A", 70}, {"B", 55}, {"C", 40}, {"D", 0}}

// RatingTier returns the tier of a rating, from S (highest) to D.
func RatingTier(r float64) string {
	for _, t := range ratingTiers {
		if r >= t.from {
			return t.name
		}
	}
	return ratingTiers[len(ratingTiers)-1].name
}

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
