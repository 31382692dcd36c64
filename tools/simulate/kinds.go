package main

import "math/rand/v2"

// kind is the behaviour of a kind of agents. Rates are per day.
type kind struct {
	name     string
	sessions float64
	score    func(*rand.Rand) float64 // of a session, 0 to 100
	signals  float64
	rests    float64 // share of the signals that rest on receipts
	sound    float64 // share of the signals that would survive a dispute
	// looks counts the signals of others that an agent checks. It disputes the share notices of the unsound ones, and the
	// share mistakes of the sound ones.
	looks, notices, mistakes float64
	renames                  bool // takes a new name after a lost dispute
}

// normal is a score of a spread around a mean.
func normal(mean, spread float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return mean + spread*r.NormFloat64() }
}

// mixed is a high score, or with probability short that of a short session.
func mixed(short float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		if r.Float64() < short {
			return 24 + 5*r.NormFloat64()
		}
		return 48 + 5*r.NormFloat64()
	}
}

// The scores follow docs/autonomy.md: quartiles of 25 and 50 for steady agents, 22 and 30 for replayed scripts, 38 and
// 46 for fakes at a trusted host.
var (
	honest = &kind{
		name: "honest", sessions: 2, score: mixed(0.25), signals: 0.5, rests: 0.95, sound: 0.998, looks: 3, notices: 0.5,
		mistakes: 0.0005,
	}
	lazy = &kind{
		name: "lazy", sessions: 0.7, score: mixed(0.5), signals: 0.3, rests: 0.4, sound: 0.93, looks: 0.5, notices: 0.2,
		mistakes: 0.05,
	}
	colluding = &kind{name: "colluding", sessions: 3, score: normal(42, 5), signals: 0.5, rests: 1, sound: 1}
	sybil     = &kind{name: "Sybil", sessions: 1.5, score: normal(26, 5), signals: 0.5, rests: 0.5, sound: 0.9,
		renames: true}
	givenUp = &kind{name: "given up"} // a name
	helping = &kind{name: "helping"}  // with an attack, and nothing else
	hasty   = &kind{name: "hasty", sessions: 50, score: colluding.score, signals: colluding.signals, rests: 1, sound: 1}
)

// groups are the kinds in the tables.
var groups = []*kind{honest, lazy, colluding, sybil, givenUp}
