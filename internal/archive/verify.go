package archive

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// Outcome is the result for one record among many.
type Outcome string

const (
	Verified   Outcome = "verified"   // the chain is complete and valid
	Incomplete Outcome = "incomplete" // the record says that the post was refused, and its signed artifacts are valid
	// an artifact is not valid, or is missing though the record says that the post was made
	Refused Outcome = "refused"
)

// Judged is one record with its result.
type Judged struct {
	Record   ledger.Record
	Outcome  Outcome
	Refusal  ledger.Check // why it is refused
	Unproven []string     // see [Verdict]; nil if it is refused
	By       *Trust       // that judged it
}

// Judge verifies many records, each as of its own time, and all against each other.
type Judge struct {
	archive Archive
	seen    *sessions
	most    int // records
}

// NewJudge returns a judge. receipts has the interaction receipts of the records, or is nil. now is today's time.
func (a Archive) NewJudge(receipts Receipts, now time.Time) *Judge {
	return &Judge{a, newSessions(receipts, now), maxRecords}
}

// Records verifies each record that has evidence, or is of a post that was made and so must have some. An error comes
// last; without one all were read.
func (j *Judge) Records(ctx context.Context, records iter.Seq2[ledger.Record, error]) iter.Seq2[Judged, error] {
	return func(yield func(Judged, error) bool) {
		n := 0
		for r, err := range records {
			made := r.Flow == "post" && r.State != ledger.StateRefused
			if err == nil && !made && len(r.Artifacts) == 0 {
				continue
			}
			n++
			if err = cmp.Or(err, checkRecords(n, j.most)); err != nil {
				yield(Judged{}, err)
				return
			}
			if !yield(j.judge(ctx, r), nil) {
				return
			}
		}
	}
}

// maxRecords bounds the records with evidence of one verification, which keeps up to 1 KiB of each in memory, and of
// one export.
const maxRecords = 1 << 19

func checkRecords(n, most int) error {
	if n > most {
		return refusal.New("evidence_malformed",
			"more than the %d records that can be verified at once: export fewer, with --since and --until", most)
	}
	return nil
}

// Missing returns the ids of posts with a verified receipt and no record.
func (j *Judge) Missing() (ids []string) {
	for _, chain := range j.seen.chains {
		ids = slices.AppendSeq(ids, maps.Keys(chain.posts))
	}
	slices.Sort(ids)
	return ids
}

func (j *Judge) judge(ctx context.Context, r ledger.Record) Judged {
	t := j.archive.Of(r)
	v, err := t.verify(ctx, r, j.seen)
	out := Judged{Record: r, Outcome: Refused, Refusal: v.Refused(), Unproven: v.Unproven, By: t}
	if err == nil && out.Refusal.Name == "" {
		if again := j.seen.first(r); again != nil {
			out.Refusal, out.Unproven = failed(recordCheck, again), nil
			return out
		}
	}
	switch {
	case err != nil:
		out.Refusal = failed("trust", err)
	case v.Whole:
		out.Outcome = Verified
	case out.Refusal.Name == "" && r.State == ledger.StateRefused:
		out.Outcome = Incomplete
	case out.Refusal.Name == "":
		out.Refusal = v.Checks[slices.IndexFunc(v.Checks, func(k ledger.Check) bool { return !k.OK })]
	}
	if out.Outcome == Refused {
		out.Unproven = nil
	}
	return out
}

func failed(name string, err error) ledger.Check {
	return ledger.Check{Name: name, Code: refusal.CodeOf(err), Detail: err.Error()}
}
