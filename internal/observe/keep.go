package observe

import "slices"

// Keep returns the observations of now, and those contradictions of before that could not be observed again. A
// contradiction stays until it is observed to be mended.
func Keep(before, now []Look) []Look {
	out := slices.Clone(now)
	for _, b := range before {
		if b.Result == Contradicts && !madeAgain(b.ID(), now) {
			out = append(out, b)
		}
	}
	return out
}

// madeAgain reports whether every observation with this id could be made.
func madeAgain(id string, now []Look) bool {
	made := false
	for _, l := range now {
		if l.ID() == id && l.Result == Unseen {
			return false
		}
		made = made || l.ID() == id
	}
	return made
}
