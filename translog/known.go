package translog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// Known is what is known about a log before an audit: entries that proofs have shown, and states that its key signed.
// The zero value knows nothing. It is not safe for concurrent use.
type Known struct {
	entries map[int64]shown
	states  map[int64]shown // by size
}

// shown is the hash of an entry or of a tree, and what it is of or from.
type shown struct {
	hash tlog.Hash
	name string
}

// Add adds what a proof shows. It refuses a proof that contradicts an earlier one: no log can hold both.
func (k *Known) Add(v Verified) error {
	name := v.name()
	if err := learn(&k.entries, v.Index, shown{tlog.RecordHash(v.Opening.Entry.Encode()), name}, "entry"); err != nil {
		return err
	}
	return learn(&k.states, v.Tree.N, shown{v.Tree.Hash, "the proof of " + name}, "size")
}

// AddCheckpoint adds a checkpoint that the policy's log has signed, with or without witnesses. name says where it is
// from.
func (k *Known) AddCheckpoint(name string, text []byte, p *Policy) error {
	c, _, err := opened(string(text), signedBy(p.keys))
	if err != nil {
		return err
	}
	return learn(&k.states, c.N, shown{c.Hash, name}, "size")
}

func learn(all *map[int64]shown, at int64, s shown, what string) error {
	if *all == nil {
		*all = make(map[int64]shown)
	}
	before, ok := (*all)[at]
	if !ok {
		(*all)[at] = s
	} else if before.hash != s.hash {
		return contradicted("differs at %s %d between %s and %s: no log can hold both", what, at, before.name, s.name)
	}
	return nil
}

// name names the entry that a proof is of.
func (v Verified) name() string {
	d := v.Opening.Document
	return fmt.Sprintf("the %s of %.64s", v.Opening.Entry.Kind, cmp.Or(d.Post, d.Session, "no post"))
}

// continues finds known states that the log does not continue.
func (a *audit) continues(ctx context.Context, read tlog.HashReader, tree tlog.Tree) error {
	for _, size := range slices.Sorted(maps.Keys(a.known.states)) {
		s := a.known.states[size]
		if size > tree.N {
			a.find(Forked, tree.N, "the log has %d entries, but %s has a signed state with %d", tree.N, s.name, size)
			continue
		}
		root, err := tlog.TreeHash(size, read)
		if err != nil {
			return fmt.Errorf("read the log's tiles: %w", err)
		}
		if root != s.hash && size > 0 {
			a.find(Forked, size, "the log's key has signed two logs: the first %d entries are others than in %s", size,
				s.name)
		}
	}
	for _, index := range slices.Sorted(maps.Keys(a.known.entries)) {
		if index >= tree.N {
			a.find(Missing, index, "the log ends before %s", a.known.entries[index].name)
		}
	}
	return ctx.Err()
}
