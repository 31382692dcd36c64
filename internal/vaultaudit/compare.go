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
	Since, Until time.Time     // of what is reported; zero Since is the beginning
	Window       time.Duration // by how much the times of a signature in the two may differ
	// Hash returns a signature as the log has it, to compare signatures themselves. It may be nil. A log in plaintext does
	// not need it.
	Hash Hash
	// Found gets each difference at once.
	Found func(Difference) error
}

// maxHeld bounds the signatures and artifacts in memory that still wait for their partner.
const maxHeld = 1 << 19

// errWindow means that too many wait.
var errWindow = errors.New("too many signatures lie within the window of time: choose a smaller one")

// Run compares the signatures of a log with the artifacts of records, which come in the order of their start. It holds
// those within the window, and artifacts of calls under way that later calls overtook.
func (c Comparison) Run(ctx context.Context, log *Logs, records iter.Seq2[ledger.Record, error]) (Summary, error) {
	j := join{Comparison: c, waiting: make(map[string][]*held), seen: make(map[string]bool),
		summary: Summary{Since: c.Since, Until: c.Until}}
	log.inRange = c.inRange
	nextSignature, stop := iter.Pull2(j.shown(c.near(log.Signatures())))
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

// near drops entries too far from the range to be the partner of anything in it.
func (c Comparison) near(signatures iter.Seq2[Signature, error]) iter.Seq2[Signature, error] {
	return func(yield func(Signature, error) bool) {
		for s, err := range signatures {
			switch {
			case err == nil && s.Time.After(c.Until.Add(2*c.Window)):
				return
			case err == nil && !c.Since.IsZero() && s.Time.Before(c.Since.Add(-2*c.Window)):
			case !yield(s, err):
				return
			}
		}
	}
}

// Records is the query for the records to compare.
func (c Comparison) Records() ledger.Query {
	q := ledger.Query{Until: c.Until.Add(2 * c.Window), OldestFirst: true}
	if !c.Since.IsZero() {
		q.Since = c.Since.Add(-2*c.Window - maxCall)
	}
	return q
}

// join is a comparison under way.
type join struct {
	Comparison
	waiting map[string][]*held // those without a partner, by what a partner has in common with them
	seen    map[string]bool    // the values of signatures in the log
	order   []*held            // in which they came
	refused []*refusedPost     // in the order of their start
	summary Summary
}

// shown reports at once what the log hides, since it can have no partner, and passes on the rest.
func (j *join) shown(signatures iter.Seq2[Signature, error]) iter.Seq2[Signature, error] {
	return func(yield func(Signature, error) bool) {
		for s, err := range signatures {
			if err == nil && s.Hidden != "" {
				if err = j.hidden(s); err == nil {
					continue
				}
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

func (j *join) hidden(s Signature) error {
	if !j.inRange(s.Time) {
		return nil
	}
	j.summary.Signatures++
	j.summary.OnlyVault++
	return j.Found(onlyVault(s))
}

// refusedAt returns the id of a post that was refused about a time.
func (j *join) refusedAt(at time.Time) string {
	for _, r := range j.refused {
		if !at.Before(r.started) && !at.After(r.until) {
			return r.id
		}
	}
	return ""
}

// held is a signature or an artifact.
type held struct {
	at      time.Time
	common  string
	value   string // in seen
	matched bool
	Difference
}

// inRange reports whether a time is compared. An entry beside the range may still be a partner.
func (c Comparison) inRange(at time.Time) bool { return !at.Before(c.Since) && at.Before(c.Until) }

func (j *join) signature(s Signature) error {
	if j.seen[s.Value] { // Ed25519 makes one signature of one text: a second one tells nothing new
		if j.inRange(s.Time) {
			j.summary.Repeated++
		}
		return nil
	}
	j.seen[s.Value] = true
	return j.add(&held{at: s.Time, common: j.common(s.Key, s.Value), value: s.Value, Difference: onlyVault(s)})
}

func onlyVault(s Signature) Difference {
	return Difference{Only: OnlyVault, Time: s.Time, Key: s.Key, Hidden: s.Hidden, Request: s.Request, Item: s.Item,
		By: s.By, Remote: s.Remote}
}

func (j *join) recorded(a item) error {
	if a.refused != nil {
		if len(j.refused) >= maxHeld {
			return errWindow
		}
		j.refused = append(j.refused, a.refused)
		return nil
	}
	return j.add(&held{at: a.Time, common: j.common(a.Key, a.Value), Difference: Difference{
		Only: OnlyRecord, Time: a.Time, Key: a.Key, Post: a.Post, Artifact: a.Name,
	}})
}

// common is what a signature and its artifact have in common.
func (j *join) common(key, value string) string {
	if j.summary.Exact {
		return key + " " + value
	}
	return key
}

// add looks for the partner of h that has waited longest. Without one, h waits.
func (j *join) add(h *held) error {
	if len(j.order) >= maxHeld {
		return errWindow
	}
	j.order = append(j.order, h)
	others := j.waiting[h.common]
	if len(others) == 0 || others[0].Only == h.Only {
		j.waiting[h.common] = append(others, h)
		return nil
	}
	h.matched, others[0].matched = true, true
	j.leave(others[0])
	if j.inRange(h.at) || j.inRange(others[0].at) { // one of the two may lie just beside the range
		j.summary.Matched++
		j.summary.Signatures++
		j.summary.Artifacts++
	}
	return nil
}

// leave removes the waiting entry that is oldest of its kind.
func (j *join) leave(h *held) {
	if rest := j.waiting[h.common][1:]; len(rest) > 0 {
		j.waiting[h.common] = rest
	} else {
		delete(j.waiting, h.common)
	}
}

// settle drops entries that are too old at a time to find a partner.
func (j *join) settle(now time.Time) error {
	n := 0
	for n < len(j.order) && j.order[n].at.Add(j.Window).Before(now) {
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
		delete(j.seen, h.value)
		if h.matched {
			continue
		}
		j.leave(h)
		if !j.inRange(h.at) {
			continue
		}
		if h.Only == OnlyVault {
			h.Refused = j.refusedAt(h.at)
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
