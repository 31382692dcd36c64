// Command mediator is a sidecar mediator for AI agents. It intercepts every outbound call of an agent. For each call
// that posts it demands the whole chain of evidence, signs what it saw with keys that the agent cannot reach, and
// forwards the call once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // the time zones, for a machine without them

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/chain"
	"github.com/actionproof/mediator/internal/cli/challenges"
	"github.com/actionproof/mediator/internal/cli/keys"
	"github.com/actionproof/mediator/internal/cli/operate"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/cli/start"
	"github.com/actionproof/mediator/internal/daemon"
	"github.com/actionproof/mediator/internal/launch"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit statuses.
const (
	exitDone    = 0
	exitRefused = 1 // refused, or failed
	exitUsage   = 2
)

// run is the whole program except the process around it. Results go to stdout, everything else to stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage cli.UsageError
	var status launch.ExitStatus
	var endpoint daemon.EndpointError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, cli.ErrRefused):
		return exitRefused
	case errors.As(err, &usage), errors.As(err, &endpoint):
		fmt.Fprintf(stderr, "mediator: %v\nRun \"mediator help\" for the commands.\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "mediator: %v%s\n", err, daemon.CodeOf(err))
		return exitRefused
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "mediator",
		Short: "A sidecar mediator for AI agents: no post leaves without its whole chain of evidence",
		// Errors and usage are printed by run, once and in one form.
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cli.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.Usage(err) })
	root.AddCommand(
		serveCommand(), triggerCommand(), controlCommand(), lookerCommand(), insideCommand(), versionCommand(),
		start.Run(), start.Dev(), start.Demo(), start.Env(),
		records.Posts(), records.Events(), records.Ledger(),
		chain.Evidence(),
		challenges.Challenge(), challenges.Capability(), challenges.HashPayload(),
		keys.Keys(), keys.Deployment(), keys.CA(), keys.Vault(),
		operate.Doctor(), operate.Reload(), operate.Guard(), operate.Config(),
	)
	return root
}
