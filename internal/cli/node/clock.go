package node

import (
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/reputation/dispute"
)

func clock() *cobra.Command {
	var key, audience string
	var node address
	c := &cobra.Command{
		Use: "clock [FILE]", Short: "Set the time of a node's log of disputes back, after its clock was wrong",
		Args: cobra.MaximumNArgs(1),
		Example: `  mediator dispute clock --operator-key operator.key.jwk --audience mediator-reputation > clock.jwt
  mediator dispute clock clock.jwt --node unix:/run/mediator/reputation.sock`,
		Long: `The first form signs a statement of the time and prints it. It needs no network, but a correct clock. The
second form hands the statement to the node, within an hour. First correct the node's clock, or its database's.

The statement becomes an entry of the log, for everybody to see. Later times that the wrong clock wrote are set back to
the statement's. What has ended stays ended.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return node.hand(c, "/v1/disputes/clock", "clock", args[0])
			}
			return printSigned(c, dispute.ClockKind, key, audience, dispute.Clock{})
		},
	}
	c.Flags().StringVar(&key, "operator-key", "", "the operator's private key")
	c.Flags().StringVar(&audience, "audience", "", "the node's audience, as its configuration has it")
	node.flags(c)
	cli.Check(c, func(c *cobra.Command) error {
		for _, name := range []string{"operator-key", "audience"} {
			if c.Flags().Changed(name) == (c.Flags().NArg() == 1) {
				return cli.Usagef("%s takes either FILE, or --operator-key and --audience", c.CommandPath())
			}
		}
		return nil
	})
	return c
}
