package accrual

import "slices"

// The tiers, lowest first (seed: tier).
const (
	TierNew         = "new"
	TierBuilding    = "building"
	TierEstablished = "established"
	TierTrusted     = "trusted"
	TierVerified    = "verified"
)

// tiers are the thresholds (seed: TIERS); a tier needs both. An agent that lost a dispute never reaches a spotless
// tier.
var tiers = []tierFrom{
	{TierNew, 0, 0, false},
	{TierBuilding, 30, 10, false},
	{TierEstablished, 50, 100, false},
	{TierTrusted, 70, 500, true},
	{TierVerified, 85, 1000, true},
}

type tierFrom struct {
	name         string
	score        float64
	interactions int64
	spotless     bool
}

// tierOf returns the highest tier reached. score excludes points from disputes: they raise no tier.
func tierOf(score float64, interactions, lost int64) string {
	reached := TierNew
	for _, t := range tiers {
		if score >= t.score && interactions >= t.interactions && (lost == 0 || !t.spotless) {
			reached = t.name
		}
	}
	return reached
}

// Rank returns the position of a tier, from 0 (new) to 4 (verified), or -1 for an unknown tier.
func Rank(tier string) int64 {
	return int64(slices.IndexFunc(tiers, func(t tierFrom) bool { return t.name == tier }))
}
