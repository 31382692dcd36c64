package operate

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/guard"
)

// Guard returns the command that installs and checks the rules of a pod's network.
func Guard() *cobra.Command {
	var path string
	var print, check bool
	var asJSON bool
	c := &cobra.Command{
		Use: "guard --config FILE", Short: "Leave a pod one way out: through the mediator", Args: cli.NoArgs,
		Example: `  mediator guard --config mediator.yaml --print
  mediator guard --config mediator.yaml --check`,
		Long: `Installs nftables rules in this network namespace, from the guard section of the sidecar's configuration. Only
the mediator's users may leave. Others' connections to ports 443 and 80 reach the transparent listener; all else that
they send is refused and counted. The command replaces its earlier rules at once, and needs CAP_NET_ADMIN. Run it in an
init container of the agent's pod: on a machine's own network it would cut the machine off.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if print && check {
				return cli.Usagef("mediator guard takes either --print or --check")
			}
			o, err := config.LoadGuard(path)
			if err != nil {
				return err
			}
			rules, err := guard.Rules(o)
			switch {
			case err != nil:
				return err
			case print:
				_, err := fmt.Fprint(c.OutOrStdout(), rules)
				return err
			case check:
				return checkGuard(c, rules, asJSON)
			}
			if err := rules.Install(); err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), "the rules stand")
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print what --check has counted as JSON")
	cli.ConfigFlag(c, &path, "mediator.yaml")
	c.Flags().BoolVar(&print, "print", false, "print the rules for nft -f, and install nothing")
	c.Flags().BoolVar(&check, "check", false,
		"compare the installed rules with these and count refused packets; install nothing")
	return c
}

func checkGuard(c *cobra.Command, rules *guard.Ruleset, asJSON bool) error {
	if err := rules.Check(); err != nil {
		return err
	}
	counted, err := rules.Count()
	if err != nil {
		return err
	}
	return cli.PrintText(c, asJSON, map[string]any{"refused": counted}, func(w io.Writer) error {
		fmt.Fprintln(w, "the rules stand; packets refused:")
		for _, name := range rules.Counters() {
			fmt.Fprintf(w, "%8d %s\n", counted[name], name)
		}
		return nil
	})
}
