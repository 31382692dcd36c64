package observe

import (
	"slices"

	"github.com/actionproof/mediator/look"
)

// KeepContradictions returns the observations now, and the earlier contradictions that could not be observed again: a
// contradiction stays until a later observation shows that it is gone.
func KeepContradictions(before, now []look.Observation) []look.Observation {
	out := slices.Clone(now)
	for _, b := range before {
		same := func(l look.Observation) bool { return l.ID() == b.ID() }
		failed := func(l look.Observation) bool { return same(l) && l.Result == look.NotObserved }
		if b.Result == look.Contradicts && (!slices.ContainsFunc(now, same) || slices.ContainsFunc(now, failed)) {
			out = append(out, b)
		}
	}
	return out
}
