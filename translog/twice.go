package translog

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/actionproof/mediator/translog/leaf"
)

// maxBegun bounds the beginnings that an audit remembers: 1 GiB.
const maxBegun = 1 << 26

// beginning is an intent or an opened session. Its id is a part of Entry.Of, to need little memory.
type beginning struct {
	id    uint64
	index int64
}

func (a *audit) begins(e leaf.Entry, index int64) {
	id, _ := strconv.ParseUint(e.Of[:16], 16, 64) // package leaf has read it
	if e.Kind == leaf.SessionOpened {
		id = ^id
	}
	switch len(a.begun) {
	case maxBegun + 1:
		return
	case maxBegun:
		a.find(Twice, index, "over %d posts and sessions begin: whether one begins again from here on is not known",
			maxBegun)
	}
	a.begun = append(a.begun, beginning{id, index})
}

// repeated finds the posts and sessions that begin twice, also after their end: each version could be shown to somebody
// else.
func (a *audit) repeated() {
	slices.SortFunc(a.begun, func(x, y beginning) int {
		return cmp.Or(cmp.Compare(x.id, y.id), cmp.Compare(x.index, y.index))
	})
	for i := 1; i < len(a.begun); i++ {
		if a.begun[i].id == a.begun[i-1].id {
			a.find(Twice, a.begun[i].index, "the same post or session begins at the entry %d, too", a.begun[i-1].index)
		}
	}
}
