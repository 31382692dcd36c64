package records

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/process/sidecar"
	"github.com/actionproof/mediator/ledger"
)

// Ledger returns the commands about which ledger the sidecar uses.
func Ledger() *cobra.Command {
	return cli.Group("ledger", "Which ledger the sidecar uses", ledgerShow(), ledgerAccept())
}

func ledgerShow() *cobra.Command {
	var at string
	var asJSON bool
	c := &cobra.Command{
		Use: "show", Short: "Show which ledger the sidecar uses, and what was accepted in the place of another", Args: cli.NoArgs,
		Example: `  mediator ledger show --dir .mediator`,
		RunE: func(c *cobra.Command, _ []string) error {
			var l admin.Ledger
			if err := admin.Get(c.Context(), at, "/v1/ledger", &l); err != nil {
				return err
			}
			lines := []string{describe(l.Identity)}
			for _, a := range l.Acceptances {
				lines = append(lines, describeAcceptance(a))
			}
			return cli.Print(c, asJSON, l, strings.Join(lines, "\n"))
		},
	}
	cli.AdminFlag(c, &at)
	cli.JSONFlag(c, &asJSON)
	return c
}

func ledgerAccept() *cobra.Command {
	var path, reason string
	var asJSON bool
	c := &cobra.Command{
		Use: "accept --config FILE --reason TEXT", Short: "Accept a ledger in the place of the one that the sidecar used last", Args: cli.NoArgs,
		Example: `  mediator ledger accept --config mediator.yaml --reason "restored from the backup of Monday"`,
		Long: `Accepts the ledger that the sidecar refuses as ledger_replaced, and records that in the ledger, with the reason. The sidecar must not run.
Nobody knows which single-use keys were used in the ledger that is gone. Therefore the accepted one refuses every key that expires within the
next 11 minutes: until then nearly every post is refused, and what was used before stays used.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if reason == "" {
				return cli.Usagef("%s needs a --reason that is not empty", c.CommandPath())
			}
			a, err := sidecar.AcceptLedger(c.Context(), path, reason)
			if err != nil {
				return err
			}
			return cli.Print(c, asJSON, a, fmt.Sprintf("%s\nkeys that expire before %s are refused, and so are most posts until then", describeAcceptance(a.Acceptance), a.RefusedUntil.Format(time.RFC3339)))
		},
	}
	cli.ConfigFlag(c, &path, "mediator.yaml")
	c.Flags().StringVar(&reason, "reason", "", "why, for the record (required)")
	cli.Required(c, "reason")
	cli.JSONFlag(c, &asJSON)
	return c
}

func describe(i ledger.Identity) string { return fmt.Sprintf("ledger %s, mark %d", i.ID, i.Mark) }

func describeAcceptance(a ledger.Acceptance) string {
	was := "one whose identity could not be read"
	if a.Was.ID != "" {
		was = describe(a.Was)
	}
	return fmt.Sprintf("%s accepted %s in the place of %s: %s", a.At.Format(time.RFC3339), describe(a.Found), was, a.Reason)
}
