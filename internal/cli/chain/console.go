package chain

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/console"
)

// JudgeFlags are the flags with which the console verifies posts.
type JudgeFlags struct{ by verifier }

// Add adds the flags.
func (f *JudgeFlags) Add(c *cobra.Command) {
	f.by.addPins(c)
	f.by.addManifest(c)
	c.Flags().StringVar(&f.by.log.policy, "log-policy", "", aboutLogPolicy)
}

// Trust names the files of the trust.
func (f *JudgeFlags) Trust() config.Trust { return f.by.trust }

// Files are the other files that Judge reads.
func (f *JudgeFlags) Files() []string { return []string{f.by.manifest, f.by.earlier, f.by.log.policy} }

// Judge verifies a record as mediator verify does, with the files as they are now.
func (f *JudgeFlags) Judge(ctx context.Context, r admin.Record) ([]console.Result, error) {
	v, j, err := f.by.judge(ctx, r.Record, r.Receipts, r.Proofs)
	if err != nil {
		return nil, err
	}
	l := logged{j.Logged}
	authentic := console.Result{Name: "Authentic", State: "yes", Says: "yes: certified keys signed every artifact"}
	if !v.Whole {
		authentic.State, authentic.Says = "no", "REFUSED: the record does not show the chain of a post"
		if k := v.Refused(); k.Name != "" {
			authentic.Says = "REFUSED: " + k.Name + ": " + k.Code + ": " + k.Detail
		}
	}
	return []console.Result{authentic,
		{Name: "Untampered", State: stateOf(l.Untampered.Held > 0, l.Untampered.RefusedCount > 0),
			Says: l.untampered()},
		{Name: "Witnessed", State: stateOf(len(l.Witnessed.By) > 0, false), Says: l.witnessed()},
		{Name: "Complete", State: "unknown",
			Says: "not known of one post: mediator verify compares an export with the log"},
	}, nil
}

func stateOf(yes, no bool) string {
	switch {
	case no:
		return "no"
	case yes:
		return "yes"
	}
	return "unknown"
}
