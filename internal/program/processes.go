package program

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/keys"
	nodecli "github.com/actionproof/mediator/internal/cli/node"
	"github.com/actionproof/mediator/internal/isolate"
	"github.com/actionproof/mediator/internal/process/control"
	"github.com/actionproof/mediator/internal/process/node"
	"github.com/actionproof/mediator/internal/process/registrar"
	"github.com/actionproof/mediator/internal/process/sidecar"
	"github.com/actionproof/mediator/internal/process/trigger"
)

func processCommands() (out []*cobra.Command) {
	for _, p := range []struct {
		name, file, short string
		run               func(ctx context.Context, config string, stderr io.Writer) error
	}{
		{"serve", "mediator.yaml", "Run the sidecar: the proxy that agents use", sidecar.Run},
		{"trigger", "trigger.yaml", "Run the trigger service: events in, origin proofs and receipts out", trigger.Run},
		{"control", "control.yaml", "Run the control plane: policy decisions and action grants", control.Run},
		{"reputation", "reputation.yaml", "Run the node: receipts in, autonomy scores and reputations out",
			func(ctx context.Context, path string, stderr io.Writer) error {
				return node.Run(ctx, version, path, stderr)
			}},
		{"registrar", "registrar.yaml", "Run the registrar: keys and pods in, certificates out", registrar.Run},
	} {
		var path string
		c := &cobra.Command{
			Use: p.name + " --config FILE", Short: p.short, Args: cli.NoArgs,
			Example: "  mediator " + p.name + " --config " + p.file,
			RunE:    func(c *cobra.Command, _ []string) error { return p.run(c.Context(), path, c.ErrOrStderr()) },
		}
		cli.ConfigFlag(c, &path, p.file)
		switch p.name {
		case "reputation":
			c.AddCommand(nodecli.Show(), nodecli.Audit())
		case "registrar":
			c.AddCommand(keys.SignRules())
		}
		out = append(out, c)
	}
	return out
}

func lookerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "looker", Short: "Answer the sidecar's questions about the agents' processes", Hidden: true,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return sidecar.ServeLooker(c.InOrStdin(), c.OutOrStdout()) },
	}
}

func insideCommand() *cobra.Command {
	return &cobra.Command{
		Use: isolate.Command, Short: "Start the agent that mediator run isolates", Hidden: true, Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error { return isolate.Inside() },
	}
}
