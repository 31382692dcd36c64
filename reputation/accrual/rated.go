package accrual

import (
	"errors"
	"slices"
)

// Rated is seed 002's rating of an agent, which package rating computes. It stands beside the score and never has a part in it.
type Rated struct {
	R    float64 `json:"r"`      // 0 to 100
	Q    float64 `json:"q"`      // what the agent's breaches of rules come to: 0 to MaxQ
	Tier string  `json:"r_tier"` // one of the letters of RatingTiers
}

// MaxQ is the most that Q can be: three parts of at most 1.
const MaxQ = 3

// RatingTiers are the tiers of a rating, the highest first.
var RatingTiers = []string{"S", "A", "B", "C", "D"}

// check refuses what is no rating.
func (r *Rated) check() error {
	switch {
	case r == nil:
		return nil
	case !within(r.R, 100) || !within(r.Q, MaxQ):
		return errors.New("rating.r is not from 0 to 100, or rating.q not from 0 to 3")
	case !slices.Contains(RatingTiers, r.Tier):
		return errors.New("rating.r_tier is none of S, A, B, C and D")
	}
	return nil
}
