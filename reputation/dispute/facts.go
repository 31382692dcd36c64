package dispute

import "slices"

// Facts are what the log says of one agent.
type Facts struct {
	Pending    int        // disputes in which it is accused, and that do not count yet
	Ended      []Ended    // disputes of it and against it that count, in the order in which they came to
	Violations []Violated // the last ones, in their order
}

// Facts returns what the log says of an agent.
func (b *Book) Facts(id string) Facts {
	a := b.agents[id]
	if a == nil {
		return Facts{}
	}
	return Facts{a.pending, slices.Clone(a.ended), slices.Clone(a.violations)}
}
