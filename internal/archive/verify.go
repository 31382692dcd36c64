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

// Judged is one record with its result, as mediator verify --json prints it.
type Judged struct {
	ID       string       `json:"id"`
	State    ledger.State `json:"state"`
	Outcome  Outcome      `json:"result"`
	Check    string       `json:"check,omitempty"` // that refused it
	Code     string       `json:"code,omitempty"`
	Detail   string       `json:"detail,omitempty"`
	Unproven []string     `json:"unproven,omitempty"` // see [Verdict]; nil if it is refused
	// Log is what its proofs of the transparency log show: see [LogJudge.Add], which a caller asks.
	Log       LogResult `json:"log,omitempty"`
	LogCode   string    `json:"logCode,omitempty"`
	LogDetail string    `json:"logDetail,omitempty"`

	Record ledger.Record `json:"-"`
	By     *Trust        `json:"-"` // that judged it
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
	out, why := Judged{ID: r.ID, State: r.State, Outcome: Refused, Record: r, By: t}, v.Refused()
	var again error
	if err == nil && why.Name == "" {
		again = j.seen.first(r)
	}
	switch {
	case err != nil:
		why = failed("trust", err)
	case why.Name != "":
	case again != nil:
		why = failed(recordCheck, again)
	case v.Whole:
		out.Outcome = Verified
	case r.State == ledger.StateRefused:
		out.Outcome = Incomplete
	default:
		why = v.Checks[slices.IndexFunc(v.Checks, func(k ledger.Check) bool { return !k.OK })]
	}
	if out.Outcome == Refused {
		out.Check, out.Code, out.Detail = why.Name, why.Code, why.Detail
	} else {
		out.Unproven = v.Unproven
	}
	return out
}

func failed(name string, err error) ledger.Check {
	return ledger.Check{Name: name, Code: refusal.CodeOf(err), Detail: err.Error()}
}
