package accrual

import "errors"

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

// Check is for [CheckForm].
func (r Rated) Check() error {
	if r.Tier != RatingTier(r.R) {
		return errors.New("rating.r_tier does not follow from rating.r")
	}
	return nil
}
