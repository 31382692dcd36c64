package observe

import "slices"

// Keep returns the looks of now, and those of before that were against something and could not be made again: what was seen to be wrong
// stays so until it is seen to be right.
func Keep(before, now []Look) []Look {
	out := slices.Clone(now)
	for _, b := range before {
		if b.Result == Contradicts && !madeAgain(b.ID(), now) {
			out = append(out, b)
		}
	}
	return out
}

// madeAgain tells whether the looks with this id were all made.
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
