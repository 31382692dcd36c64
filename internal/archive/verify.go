package archive

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/actionproof/mediator/ledger"
)

// Outcome is what the verification of one record among many comes to.
type Outcome string

const (
	Verified   Outcome = "verified"   // the whole chain is there and valid
	Incomplete Outcome = "incomplete" // the record says that the post was refused, and what is there of its chain is valid
	Refused    Outcome = "refused"    // something of the chain is not valid, or is missing though the record says that the post was made
)

// Judged is one record with what its verification comes to.
type Judged struct {
	Record  ledger.Record
	Outcome Outcome
	Refusal ledger.Check // why it is refused
	By      *Trust       // what it was judged by
}

// Judge verifies each record that has evidence, as of its own time. An error is the last thing that it yields; without one all were read.
// receipts has the interaction receipts that the records rest on; it may be nil.
func (a Archive) Judge(ctx context.Context, records iter.Seq2[ledger.Record, error], receipts Receipts, now time.Time) iter.Seq2[Judged, error] {
	return func(yield func(Judged, error) bool) {
		seen := newSessions(receipts, now)
		for r, err := range records {
			if err != nil {
				yield(Judged{}, err)
				return
			}
			if len(r.Artifacts) > 0 && !yield(a.judge(ctx, r, seen), nil) {
				return
			}
		}
	}
}

func (a Archive) judge(ctx context.Context, r ledger.Record, seen *sessions) Judged {
	t := a.Of(r)
	v, err := t.verify(ctx, r, seen)
	j := Judged{Record: r, Outcome: Refused, Refusal: v.Refused(), By: t}
	switch {
	case err != nil:
		j.Refusal = failed("trust", err)
	case v.Whole:
		j.Outcome = Verified
	case j.Refusal.Code == "" && r.State == ledger.StateRefused:
		j.Outcome = Incomplete
	case j.Refusal.Code == "":
		j.Refusal = v.Checks[slices.IndexFunc(v.Checks, func(k ledger.Check) bool { return !k.OK })]
	}
	return j
}

// failed is a check that refuses.
func failed(name string, err error) ledger.Check {
	k := ledger.Check{Name: name, Detail: err.Error()}
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		k.Code = coded.Code()
	}
	return k
}
