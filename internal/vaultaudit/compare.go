package vaultaudit

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// Comparison says how a log is compared with a record.
type Comparison struct {
	Since, Until time.Time     // the reported range; zero Since is the beginning
	Window       time.Duration // the greatest difference between the times of a signature and of its artifact
	// Hash returns a signature as the log has it. Only a log in plaintext needs none.
	Hash  Hash
	Found func(Difference) error // gets each difference at once
}

// maxHeld bounds the signatures and artifacts in memory that still wait for their partner.
const maxHeld = 1 << 19

var (
	errWindow = errors.New("too many signatures were made at about the same time")
	errHashed = errors.New("the log has hashes of the signatures: compare them with --address, --token-file and " +
		"--device")
)

// Run compares the signatures of a log with the artifacts of records, which come in the order of their start. It holds
// only those within the window, and the artifacts of slow calls.
func (c Comparison) Run(ctx context.Context, log *Logs, records iter.Seq2[ledger.Record, error]) (Summary, error) {
	j := join{Comparison: c, waiting: make(map[string][]*held), seen: make(map[string]bool),
		summary: Summary{Since: c.Since, Until: c.Until}}
	log.inRange = c.inRange
	nextSignature, stop := iter.Pull2(j.candidates(log.Signatures()))
	defer stop()
	s, err, moreSignatures := nextSignature()
	if err != nil {
		return j.summary, err
	}
	switch {
	case !moreSignatures || isPlain(s.Value):
		j.Hash = plain
	case j.Hash == nil:
		return j.summary, errHashed
	}
	nextArtifact, stop2 := iter.Pull2(recorded(ctx, records, log.Keys, j.Hash))
	defer stop2()
	a, err, moreArtifacts := nextArtifact()
	for err == nil && (moreSignatures || moreArtifacts) {
		if moreSignatures && (!moreArtifacts || !a.Time.Before(s.Time)) {
			if err = errors.Join(j.settle(s.Time), j.signature(s)); err == nil {
				s, err, moreSignatures = nextSignature()
			}
		} else if err = errors.Join(j.settle(a.Time), j.add(&held{Entry: a})); err == nil {
			a, err, moreArtifacts = nextArtifact()
		}
	}
	if err == nil {
		err = j.release(len(j.order))
	}
	j.summary.OtherKeys = log.otherKeys
	return j.summary, err
}

// Records is the query for the records to compare.
func (c Comparison) Records() ledger.Query {
	q := ledger.Query{Until: c.Until.Add(2 * c.Window), OldestFirst: true}
	if !c.Since.IsZero() {
		q.Since = c.Since.Add(-2*c.Window - maxCall)
	}
	return q
}

type join struct {
	Comparison
	waiting map[string][]*held // those without a partner, by key and value
	seen    map[string]bool    // the values of signatures in the log
	order   []*held            // in which they came
	summary Summary
}

// candidates leaves out the signatures too far from the range, and reports hidden ones at once.
func (j *join) candidates(signatures iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for s, err := range signatures {
			switch {
			case err != nil:
			case s.Time.After(j.Until.Add(2 * j.Window)), !j.Since.IsZero() && s.Time.Before(j.Since.Add(-2*j.Window)):
				continue
			case s.Hidden != "":
				if err = j.hidden(s.Difference); err == nil {
					continue
				}
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

func (j *join) hidden(d Difference) error {
	if !j.inRange(d.Time) {
		return nil
	}
	j.summary.Signatures++
	j.summary.OnlyVault++
	return j.Found(d)
}

type held struct {
	Entry
	matched bool
}

func (c Comparison) inRange(at time.Time) bool { return !at.Before(c.Since) && at.Before(c.Until) }

func (j *join) signature(s Entry) error {
	if j.seen[s.Value] { // Ed25519 makes one signature of one text
		if j.inRange(s.Time) {
			j.summary.Repeated++
		}
		return nil
	}
	j.seen[s.Value] = true
	return j.add(&held{Entry: s})
}

func (h *held) common() string { return h.Key + " " + h.Value }

// add looks for the partner of h that has waited longest. Without one, h waits.
func (j *join) add(h *held) error {
	if len(j.order) >= maxHeld {
		return errWindow
	}
	j.order = append(j.order, h)
	common := h.common()
	others := j.waiting[common]
	if len(others) == 0 || others[0].Only == h.Only {
		j.waiting[common] = append(others, h)
		return nil
	}
	h.matched, others[0].matched = true, true
	j.leave(others[0])
	if j.inRange(h.Time) || j.inRange(others[0].Time) { // one of the two may lie just beside the range
		j.summary.Matched++
		j.summary.Signatures++
		j.summary.Artifacts++
	}
	return nil
}

func (j *join) leave(h *held) {
	common := h.common()
	if rest := j.waiting[common][1:]; len(rest) > 0 {
		j.waiting[common] = rest
	} else {
		delete(j.waiting, common)
	}
}

func (j *join) settle(now time.Time) error {
	n := 0
	for n < len(j.order) && j.order[n].Time.Add(j.Window).Before(now) {
		n++
	}
	return j.release(n)
}

func (j *join) release(n int) error {
	for _, h := range j.order[:n] {
		if h.Only == OnlyVault {
			delete(j.seen, h.Value)
		}
		if h.matched {
			continue
		}
		j.leave(h)
		if !j.inRange(h.Time) {
			continue
		}
		if h.Only == OnlyVault {
			j.summary.Signatures++
			j.summary.OnlyVault++
		} else {
			j.summary.Artifacts++
			j.summary.OnlyRecord++
		}
		if err := j.Found(h.Difference); err != nil {
			return err
		}
	}
	clear(j.order[:n])
	j.order = j.order[n:]
	return nil
}
