package observe

import (
	"slices"

	"github.com/actionproof/mediator/look"
)

// KeepContradictions returns the observations of now, and the contradictions of before that could not be observed
// again. A contradiction stays until a later observation shows that it is gone.
func KeepContradictions(before, now []look.Observation) []look.Observation {
	out := slices.Clone(now)
	for _, b := range before {
		if b.Result == look.Contradicts && !madeAgain(b.ID(), now) {
			out = append(out, b)
		}
	}
	return out
}

// madeAgain reports whether every observation with this ID could be made.
func madeAgain(id string, now []look.Observation) bool {
	made := false
	for _, l := range now {
		if l.ID() == id && l.Result == look.NotObserved {
			return false
		}
		made = made || l.ID() == id
	}
	return made
}
