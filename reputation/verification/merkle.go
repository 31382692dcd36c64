package verification

import (
	"encoding/hex"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/translog"
)

// MerkleRoot returns the root as the original computes it: over pairs of hex texts, an odd one paired with itself.
// [Trace.RFC6962Root] avoids its two flaws: leaves and nodes are hashed alike, and a repeated last leaf does not change
// the root.
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

// Attestation binds a root to a session as the original does, without a key: anyone can compute it. Only the signed
// result proves anything.
func Attestation(merkleRoot, sessionID string) string {
	return evidence.HashBytes([]byte(merkleRoot + sessionID))
}

// RFC6962Root returns the RFC 6962 tree head (SHA-256) over the hashed texts of the turns, in hex.
func (t Trace) RFC6962Root() string {
	var tree translog.Tree
	previous := ChainSeed
	for _, turn := range t.Turns {
		tree, _ = tree.With(turn.text(previous))
		previous = turn.Hash
	}
	root := tree.Head().Root
	return hex.EncodeToString(root[:])
}

func (t Trace) hashes() []string {
	all := make([]string, len(t.Turns))
	for i, turn := range t.Turns {
		all[i] = turn.Hash
	}
	return all
}
