package chain

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/console"
	"github.com/actionproof/mediator/internal/devstack"
)

// JudgeFlags are the flags with which the console verifies posts.
type JudgeFlags struct {
	by  judgeFlags
	log logFlags
}

// Add adds the flags.
func (f *JudgeFlags) Add(c *cobra.Command) {
	f.by.addPins(c)
	c.Flags().StringVar(&f.by.manifest, "manifest", "manifest.yaml",
		"the strict deployment manifest, beside those in the bundle's history")
	cli.FileFromDir(c, "manifest", devstack.ManifestFile)
	c.Flags().StringVar(&f.log.policy, "log-policy", "", aboutLogPolicy)
}

// Trust names the files of the trust.
func (f *JudgeFlags) Trust() config.Trust { return f.by.trust }

// Files are the other files that Judge reads.
func (f *JudgeFlags) Files() []string { return []string{f.by.manifest, f.by.earlier, f.log.policy} }

// Judge verifies a record as mediator verify does, with the files as they are now.
func (f *JudgeFlags) Judge(ctx context.Context, r admin.Record) ([]console.Result, error) {
	a, err := f.by.archive()
	if err != nil {
		return nil, err
	}
	j, err := f.log.judge()
	if err != nil {
		return nil, err
	}
	v, err := a.Of(r.Record).Verify(ctx, r.Record, archive.ReceiptsOf(r.Receipts), time.Now())
	if err != nil {
		return nil, err
	}
	j.Add(r.Record, r.Proofs)
	l := loggedOf(j)
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
