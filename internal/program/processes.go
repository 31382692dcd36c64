package program

import (
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	nodecli "github.com/actionproof/mediator/internal/cli/node"
	"github.com/actionproof/mediator/internal/isolate"
	"github.com/actionproof/mediator/internal/process/control"
	"github.com/actionproof/mediator/internal/process/node"
	"github.com/actionproof/mediator/internal/process/sidecar"
	"github.com/actionproof/mediator/internal/process/trigger"
)

func serveCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "serve --config FILE", Short: "Run the sidecar: the proxy that agents use", Args: cli.NoArgs,
		Example: `  mediator serve --config mediator.yaml`,
		RunE:    func(c *cobra.Command, _ []string) error { return sidecar.Run(c.Context(), path, c.ErrOrStderr()) },
	}
	cli.ConfigFlag(c, &path, "mediator.yaml")
	return c
}

func triggerCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "trigger --config FILE", Short: "Run the trigger service: events in, origin proofs and receipts out", Args: cli.NoArgs,
		Example: `  mediator trigger --config trigger.yaml`,
		RunE:    func(c *cobra.Command, _ []string) error { return trigger.Run(c.Context(), path, c.ErrOrStderr()) },
	}
	cli.ConfigFlag(c, &path, "trigger.yaml")
	return c
}

func controlCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "control --config FILE", Short: "Run the control plane: policy decisions and action grants", Args: cli.NoArgs,
		Example: `  mediator control --config control.yaml`,
		RunE:    func(c *cobra.Command, _ []string) error { return control.Run(c.Context(), path, c.ErrOrStderr()) },
	}
	cli.ConfigFlag(c, &path, "control.yaml")
	return c
}

func reputationCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "reputation --config FILE", Short: "Run the node: receipts in, autonomy scores and reputations out", Args: cli.NoArgs,
		Example: `  mediator reputation --config reputation.yaml`,
		RunE:    func(c *cobra.Command, _ []string) error { return node.Run(c.Context(), path, c.ErrOrStderr()) },
	}
	cli.ConfigFlag(c, &path, "reputation.yaml")
	c.AddCommand(nodecli.Show())
	return c
}

// lookerCommand returns the command of the sidecar's child that looks at the agents' processes.
func lookerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "looker", Short: "Answer the sidecar's questions about the agents' processes", Hidden: true, Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return sidecar.ServeLooker(c.InOrStdin(), c.OutOrStdout()) },
	}
}

// insideCommand returns the command of the first process in the namespaces of an isolated agent.
func insideCommand() *cobra.Command {
	return &cobra.Command{
		Use: isolate.Command, Short: "Start the agent that mediator run isolates", Hidden: true, Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error { return isolate.Inside() },
	}
}
