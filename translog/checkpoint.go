package translog

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"strings"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// Key signs a log's checkpoints.
type Key struct {
	origin   string
	vkey     string
	verifier note.Verifier
	sign     func(ctx context.Context, message []byte) ([]byte, error)
}

// NewKey returns the key of the log with this origin: one line without spaces, such as a host and a path. sign returns
// an Ed25519 signature, as [custody.Version.Sign] does.
//
// [custody.Version.Sign]: https://pkg.go.dev/github.com/actionproof/mediator/custody#Version.Sign
func NewKey(origin string, public []byte, sign func(ctx context.Context, message []byte) ([]byte, error)) (Key, error) {
	vkey, err := note.NewEd25519VerifierKey(origin, ed25519.PublicKey(public))
	if err != nil {
		return Key{}, refusal.New("config_malformed", "the origin or the public key of the transparency log: %v", err)
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return Key{}, refusal.New("config_malformed", "the transparency log cannot have the origin %.80q", origin)
	}
	return Key{origin, vkey, v, sign}, nil
}

// String returns the public key as a policy names it (a vkey of c2sp.org/signed-note).
func (k Key) String() string { return k.vkey }

// Checkpoint signs the tree.
func (k Key) Checkpoint(ctx context.Context, head ledger.TreeHead) (ledger.Checkpoint, error) {
	text := torchwood.Checkpoint{Origin: k.origin, Tree: treeOf(head)}.String()
	signed, err := note.Sign(&note.Note{Text: text}, signing{k.verifier, func(m []byte) ([]byte, error) {
		return k.sign(ctx, m)
	}})
	if err == nil {
		_, err = note.Open(signed, note.VerifierList(k.verifier)) // a custody's signature may be wrong
	}
	if err != nil {
		return ledger.Checkpoint{}, fmt.Errorf("sign the log's checkpoint: %w", err)
	}
	return ledger.Checkpoint{Size: head.Size, Note: string(signed)}, nil
}

// signing is a note.Signer for one signature.
type signing struct {
	note.Verifier
	sign func([]byte) ([]byte, error)
}

func (s signing) Sign(m []byte) ([]byte, error) { return s.sign(m) }

// opened parses a checkpoint that the policy accepts.
func opened(text string, policy torchwood.Policy) (torchwood.Checkpoint, *note.Note, error) {
	if len(text) > maxCheckpoint {
		return torchwood.Checkpoint{}, nil, malformed("a checkpoint has more than %d bytes", maxCheckpoint)
	}
	c, n, err := torchwood.VerifyCheckpoint([]byte(text), policy)
	if err != nil {
		return c, nil, refusal.New("log_unwitnessed",
			"the checkpoint is not signed and cosigned as the policy demands: %v", err)
	}
	return c, n, checkSize(c.N)
}

func checkSize(n int64) error {
	if n > ledger.MaxLeaves {
		return malformed("a checkpoint has more than %d entries", int64(ledger.MaxLeaves))
	}
	return nil
}

// unsigned parses a checkpoint without its signatures.
func unsigned(checkpoint string) (torchwood.Checkpoint, error) {
	return torchwood.ParseCheckpoint(checkpoint[:strings.LastIndex(checkpoint, "\n\n")+1])
}

// maxCheckpoint bounds a checkpoint with its signatures, in bytes.
const maxCheckpoint = 32 << 10

func malformed(format string, args ...any) error {
	return refusal.New("evidence_malformed", format, args...)
}
