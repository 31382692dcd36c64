package accrual

// The tiers, from the lowest to the highest (seed: tier).
const (
	TierNew         = "new"
	TierBuilding    = "building"
	TierEstablished = "established"
	TierTrusted     = "trusted"
	TierVerified    = "verified"
)

// tiers are the thresholds (seed: TIERS). A tier needs both; spotless are those that an agent who has lost a dispute never reaches.
var tiers = []struct {
	name         string
	score        float64
	interactions int64
	spotless     bool
}{
	{TierNew, 0, 0, false},
	{TierBuilding, 30, 10, false},
	{TierEstablished, 50, 100, false},
	{TierTrusted, 70, 500, true},
	{TierVerified, 85, 1000, true},
}

// tierOf returns the highest tier that an agent has reached. The score is one without points that disputes have added: they raise no tier.
func tierOf(score float64, interactions, lost int64) string {
	reached := TierNew
	for _, t := range tiers {
		if score >= t.score && interactions >= t.interactions && (lost == 0 || !t.spotless) {
			reached = t.name
		}
	}
	return reached
}

// Rank returns the place of a tier among the tiers, from 0 for new to 4 for verified, and -1 for anything else.
func Rank(tier string) int64 {
	for i, t := range tiers {
		if t.name == tier {
			return int64(i)
		}
	}
	return -1
}
