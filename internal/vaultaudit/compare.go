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
	// Hash, unless nil, makes the comparison exact. A log in plaintext does not need it.
	Hash  Hash
	Found func(Difference) error // gets each difference at once
}

// maxHeld bounds the signatures and artifacts in memory that still wait for their partner.
const maxHeld = 1 << 19

var errWindow = errors.New("too many signatures lie within the window of time: choose a smaller one")

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
	if moreSignatures && isPlain(s.Value) {
		j.Hash = plain
	}
	j.summary.Exact = j.Hash != nil
	nextArtifact, stop2 := iter.Pull2(recorded(ctx, records, log.Keys, j.Hash))
	defer stop2()
	a, err, moreArtifacts := nextArtifact()
	for err == nil && (moreSignatures || moreArtifacts) {
		if moreSignatures && (!moreArtifacts || !a.Time.Before(s.Time)) {
			if err = errors.Join(j.settle(s.Time), j.signature(s)); err == nil {
				s, err, moreSignatures = nextSignature()
			}
		} else if err = errors.Join(j.settle(a.Time), j.recorded(a)); err == nil {
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
	waiting map[string][]*held // those without a partner, by common
	seen    map[string]bool    // the values of signatures in the log
	order   []*held            // in which they came
	refused []*refusedPost     // in the order of their start
	summary Summary
}

// candidates yields the signatures that may have a partner. It leaves out those too far from the range, and reports
// hidden ones at once.
func (j *join) candidates(signatures iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for s, err := range signatures {
			switch {
			case err != nil:
			case s.Time.After(j.Until.Add(2 * j.Window)):
				return
			case !j.Since.IsZero() && s.Time.Before(j.Since.Add(-2*j.Window)):
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

func (j *join) refusedAt(at time.Time) string {
	for _, r := range j.refused {
		if !at.Before(r.started) && !at.After(r.until) {
			return r.id
		}
	}
	return ""
}

type held struct {
	Entry
	matched bool
}

// inRange reports whether a time is compared. An entry beside the range may still be a partner.
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

func (j *join) recorded(a item) error {
	if a.refused == nil {
		return j.add(&held{Entry: a.Entry})
	}
	if len(j.refused) >= maxHeld {
		return errWindow
	}
	j.refused = append(j.refused, a.refused)
	return nil
}

// common is the same for a signature and its artifact.
func (j *join) common(h *held) string {
	if j.summary.Exact {
		return h.Key + " " + h.Value
	}
	return h.Key
}

// add looks for the partner of h that has waited longest. Without one, h waits.
func (j *join) add(h *held) error {
	if len(j.order) >= maxHeld {
		return errWindow
	}
	j.order = append(j.order, h)
	common := j.common(h)
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

// leave removes the waiting entry that is oldest of its kind.
func (j *join) leave(h *held) {
	common := j.common(h)
	if rest := j.waiting[common][1:]; len(rest) > 0 {
		j.waiting[common] = rest
	} else {
		delete(j.waiting, common)
	}
}

// settle drops entries that are too old at a time to find a partner.
func (j *join) settle(now time.Time) error {
	n := 0
	for n < len(j.order) && j.order[n].Time.Add(j.Window).Before(now) {
		n++
	}
	if err := j.release(n); err != nil {
		return err
	}
	for len(j.refused) > 0 && j.refused[0].until.Add(j.Window).Before(now) {
		j.refused = j.refused[1:]
	}
	return nil
}

// release drops the first n entries, and reports those without a partner.
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
			h.Refused = j.refusedAt(h.Time)
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
