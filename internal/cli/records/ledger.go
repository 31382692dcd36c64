package records

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/process/sidecar"
)

// Ledger returns the command that accepts another ledger. mediator doctor shows which ledger the sidecar uses.
func Ledger() *cobra.Command {
	return cli.Group("ledger", "The ledger that the sidecar uses", ledgerAccept())
}

func ledgerAccept() *cobra.Command {
	var path, reason string
	c := &cobra.Command{
		Use:   "accept --config FILE --reason TEXT",
		Short: "Accept a ledger in the place of the one that the sidecar used last", Args: cli.NoArgs,
		Example: `  mediator ledger accept --config mediator.yaml --reason "restored from the backup of Monday"`,
		Long: `Accepts a ledger that the sidecar refuses as ledger_replaced, and records the reason in it. Stop the sidecar
first. The consumed keys of the lost ledger are unknown, so the accepted one refuses every key that expires within the
next 11 minutes, and thus nearly every post of that time.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if reason == "" {
				return cli.Usagef("%s needs a --reason that is not empty", c.CommandPath())
			}
			a, err := sidecar.AcceptLedger(c.Context(), path, reason)
			if err != nil {
				return err
			}
			return cli.Print(c, a,
				fmt.Sprintf("%s\nkeys that expire before %s are refused, and so are most posts until then",
					a.Acceptance, a.RefusedUntil.Format(time.RFC3339)))
		},
	}
	cli.ConfigFlag(c, &path, "mediator.yaml")
	c.Flags().StringVar(&reason, "reason", "", "why, for the record (required)")
	cli.Required(c, "reason")
	cli.JSONFlag(c)
	return c
}
