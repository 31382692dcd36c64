package verification

import (
	"encoding/hex"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/actionproof/mediator/evidence"
)

// MerkleRoot returns the root of the hashes of turns as the original computes it: it pairs the hex texts, pairs an odd one with itself,
// takes a single one for the root, and hashes the text "empty" where there is none. That tree has two flaws: leaves and nodes are hashed
// alike, and a repeated last leaf does not change the root. [RFC6962Root] has neither.
func MerkleRoot(hashes []string) string {
	if len(hashes) == 0 {
		return evidence.HashBytes([]byte("empty"))
	}
	level := hashes
	for len(level) > 1 {
		next := make([]string, 0, (len(level)+1)/2)
		for i := 0; i < len(level); i += 2 {
			next = append(next, evidence.HashBytes([]byte(level[i]+level[min(i+1, len(level)-1)])))
		}
		level = next
	}
	return level[0]
}

// Attestation returns what binds a root to a session as the original does it. It has no key: anybody can compute it. The signed result
// is what others can rely on.
func Attestation(merkleRoot, sessionID string) string {
	return evidence.HashBytes([]byte(merkleRoot + sessionID))
}

// RFC6962Root returns the Merkle tree head (RFC 6962 section 2.1, SHA-256) over the texts of which the turns' hashes are made, in hex.
func (t Trace) RFC6962Root() string {
	factory := compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
	tree, previous := factory.NewEmptyRange(0), ChainSeed
	for _, turn := range t.Turns {
		if err := tree.Append(rfc6962.DefaultHasher.HashLeaf(turn.text(previous)), nil); err != nil {
			panic(err) // it fails only for a tree with gaps
		}
		previous = turn.Hash
	}
	if tree.End() == 0 {
		return hex.EncodeToString(rfc6962.DefaultHasher.EmptyRoot())
	}
	root, err := tree.GetRootHash(nil)
	if err != nil {
		panic(err) // it fails only for a range that does not begin at 0
	}
	return hex.EncodeToString(root)
}

// hashes returns the hashes of the turns.
func (t Trace) hashes() []string {
	all := make([]string, len(t.Turns))
	for i, turn := range t.Turns {
		all[i] = turn.Hash
	}
	return all
}
