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
	// The log comes first: its first signature decides how those of artifacts are hashed.
	for e, err := range merged(j.candidates(log.Signatures()), recorded(ctx, records, log.Keys, j.hash)) {
		if err == nil {
			err = errors.Join(j.settle(e.Time), j.add(&held{Entry: e}))
		}
		if err != nil {
			return Summary{}, err
		}
	}
	err := j.release(len(j.order))
	s := &j.summary
	s.OtherKeys, s.Signatures, s.Artifacts = log.otherKeys, s.Matched+s.OnlyVault, s.Matched+s.OnlyRecord
	return *s, err
}

func (j *join) hash(ctx context.Context, text string) (string, error) { return j.Hash(ctx, text) }

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
		first := true
		for s, err := range signatures {
			switch {
			case err != nil:
			case s.Time.After(j.Until.Add(2 * j.Window)), !j.Since.IsZero() && s.Time.Before(j.Since.Add(-2*j.Window)):
				continue
			case s.Hidden != "":
				if err = j.only(s.Difference); err == nil {
					continue
				}
			case first && isPlain(s.Value):
				j.Hash = plain
			case first && j.Hash == nil:
				err = errHashed
			}
			if first = false; !yield(s, err) {
				return
			}
		}
		if first {
			j.Hash = plain // there is nothing to compare with
		}
	}
}

// only counts and reports what has no partner.
func (j *join) only(d Difference) error {
	switch {
	case !j.inRange(d.Time):
		return nil
	case d.Only == OnlyVault:
		j.summary.OnlyVault++
	default:
		j.summary.OnlyRecord++
	}
	return j.Found(d)
}

type held struct {
	Entry
	matched bool
}

func (c Comparison) inRange(at time.Time) bool { return !at.Before(c.Since) && at.Before(c.Until) }

func (h *held) common() string { return h.Key + " " + h.Value }

// add looks for the partner of h that has waited longest. Without one, h waits.
func (j *join) add(h *held) error {
	if len(j.order) >= maxHeld {
		return errWindow
	}
	if h.Only == OnlyVault {
		if j.seen[h.Value] { // Ed25519 makes one signature of one text
			if j.inRange(h.Time) {
				j.summary.Repeated++
			}
			return nil
		}
		j.seen[h.Value] = true
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
		if err := j.only(h.Difference); err != nil {
			return err
		}
	}
	clear(j.order[:n])
	j.order = j.order[n:]
	return nil
}
