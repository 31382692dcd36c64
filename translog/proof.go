package translog

import (
	"bytes"
	"context"
	"encoding/base64"
	"strconv"
	"strings"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/translog/leaf"
)

const (
	proofHeader = "c2sp.org/tlog-proof@v1"
	// MaxProof bounds a proof in bytes; maxHashes bounds its hashes.
	MaxProof, maxHashes = 64 << 10, 63
)

// Proof shows that an entry is in a log, as c2sp.org/tlog-proof has it. The opening of the entry is its extra data.
type Proof struct {
	Opening    []byte // see leaf.Open
	Index      int64
	Hashes     tlog.RecordProof
	Checkpoint string // with its signatures
}

// Encode returns the text of a .tlog-proof file.
func (p Proof) Encode() []byte {
	return torchwood.FormatProofWithExtraData(p.Index, p.Opening, p.Hashes, []byte(p.Checkpoint))
}

// ParseProof reads what [Proof.Encode] writes. It verifies nothing.
func ParseProof(text []byte) (p Proof, err error) {
	if len(text) > MaxProof {
		return p, malformed("a proof has more than %d bytes", MaxProof)
	}
	head, checkpoint, ok := strings.Cut(string(text), "\n\n")
	lines := strings.Split(head, "\n")
	if !ok || len(lines) < 3 || len(lines) > 3+maxHashes || lines[0] != proofHeader {
		return p, malformed("the text is no proof of the kind %s with an opening", proofHeader)
	}
	extra, isExtra := strings.CutPrefix(lines[1], "extra ")
	index, isIndex := strings.CutPrefix(lines[2], "index ")
	p.Opening, err = base64.StdEncoding.DecodeString(extra)
	if err == nil {
		p.Index, err = strconv.ParseInt(index, 10, 64)
	}
	if err != nil || !isExtra || !isIndex || p.Index < 0 {
		return p, malformed("the proof lacks its opening or index")
	}
	for _, line := range lines[3:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			return p, malformed("the proof has a line that is no hash")
		}
		p.Hashes = append(p.Hashes, h)
	}
	if p.Checkpoint = checkpoint; !bytes.Equal(p.Encode(), text) {
		return p, malformed("the proof is not written as %s demands", proofHeader)
	}
	if c, err := unsigned(checkpoint); err == nil { // otherwise its signatures are wrong, too
		return p, checkSize(c.N)
	}
	return p, nil
}

// Verified is what a proof shows.
type Verified struct {
	Opening leaf.Opening
	Origin  string    // of the log
	Index   int64     // of the entry
	Tree    tlog.Tree // the log when it was signed
	// Witnesses saw the log with this entry. Without any, that is only its operator's word.
	Witnesses []Cosignature
}

// Verify verifies a proof offline.
func (p *Policy) Verify(text []byte) (Verified, error) {
	return verify(text, func(checkpoint string) (c torchwood.Checkpoint, seen []Cosignature, err error) {
		c, n, err := opened(checkpoint, p)
		if err == nil {
			seen = p.cosigned(n)
		}
		return c, seen, err
	})
}

// Unverified reads a proof and checks all of it but the signatures, which anyone can have made: it shows only what the
// proof says.
func Unverified(text []byte) (Verified, error) {
	return verify(text, func(checkpoint string) (torchwood.Checkpoint, []Cosignature, error) {
		c, err := unsigned(checkpoint)
		if err != nil || len(checkpoint) > maxCheckpoint {
			err = malformed("the proof has no checkpoint that can be read")
		}
		return c, nil, err
	})
}

func verify(text []byte, open func(checkpoint string) (torchwood.Checkpoint, []Cosignature, error)) (v Verified,
	err error) {
	proof, err := ParseProof(text)
	if err != nil {
		return v, err
	}
	if v.Opening, err = leaf.Open(proof.Opening); err != nil {
		return v, err
	}
	c, seen, err := open(proof.Checkpoint)
	if err != nil {
		return v, err
	}
	hash := tlog.RecordHash(v.Opening.Entry.Encode())
	if err := tlog.CheckRecord(proof.Hashes, c.N, c.Hash, proof.Index, hash); err != nil {
		return v, refusal.New("record_mismatch", "the log does not hold the entry at the index %d", proof.Index)
	}
	v.Origin, v.Index, v.Tree, v.Witnesses = c.Origin, proof.Index, c.Tree, seen
	return v, nil
}

// Prove returns the .tlog-proof of the leaf with this id, against the last accepted checkpoint in the store.
func Prove(ctx context.Context, store ledger.LogReader, id string) ([]byte, error) {
	f, err := store.Leaf(ctx, id)
	if err != nil {
		return nil, err
	}
	_, stored, err := store.TreeHead(ctx)
	if err != nil {
		return nil, err
	}
	c := stored.Accepted
	if f.Index < 0 || f.Index >= c.Size {
		return nil, refusal.New("log_unwitnessed", "no witnessed checkpoint of the log covers the %s yet", id)
	}
	tree, err := treeIn(c)
	if err != nil {
		return nil, err
	}
	p, err := tlog.ProveRecord(c.Size, f.Index, hashes(ctx, store, tree))
	if err != nil {
		return nil, damaged(err)
	}
	return Proof{[]byte(f.Opening), f.Index, p, c.Note}.Encode(), nil
}

// treeIn reads the tree of a checkpoint from the store. It verifies no signature.
func treeIn(c ledger.Checkpoint) (tlog.Tree, error) {
	parsed, err := unsigned(c.Note)
	if err != nil || parsed.N != c.Size || checkSize(c.Size) != nil {
		return tlog.Tree{}, contradicted("has a malformed checkpoint")
	}
	return parsed.Tree, nil
}
