// Package program is the command mediator: the table of its commands, and the output of their errors.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // the time zones, for a machine without them

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/chain"
	"github.com/actionproof/mediator/internal/cli/challenges"
	"github.com/actionproof/mediator/internal/cli/keys"
	"github.com/actionproof/mediator/internal/cli/node"
	"github.com/actionproof/mediator/internal/cli/operate"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/cli/start"
	"github.com/actionproof/mediator/internal/launch"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/terminal"
)

// Main runs the program as this process asks for it, and ends the process.
func Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit statuses.
const (
	Done    = 0
	Refused = 1 // refused, or failed
	Usage   = 2 // not called as its help says
)

// Run runs the program with args. Results go to stdout, everything else to stderr.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := Command()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	called, err := root.ExecuteContextC(ctx)
	var usage cli.UsageError
	var status launch.ExitStatus
	var endpoint admin.EndpointError
	say := func(format string, args ...any) { // errors quote files and peers
		fmt.Fprintln(cli.Plain(stderr), terminal.Indented(fmt.Sprintf("mediator: "+format, args...)))
	}
	switch {
	case err == nil:
		return Done
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, cli.ErrRefused):
		return Refused
	case errors.As(err, &usage), errors.As(err, &endpoint):
		say("%v", err)
		fmt.Fprintf(stderr, "See %s --help.\n", called.CommandPath())
		return Usage
	default:
		say("%v%s", err, daemon.CodeOf(err))
		return Refused
	}
}

// Command returns the command mediator with all its subcommands.
func Command() *cobra.Command {
	root := &cobra.Command{
		Use:   "mediator",
		Short: "A sidecar mediator for AI agents: no post leaves without its whole chain of evidence",
		// Errors and usage are printed by Run, once and in one form.
		SilenceErrors: true,
		SilenceUsage:  true,
		Example: `  mediator dev
  mediator events send github event.json
  mediator run -- ./agent
  mediator posts list --follow
  mediator explain event_closed`,
		Args: cli.NoOtherCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if strings.Contains(err.Error(), "shorthand") { // one thumbprint in 64 begins with a dash
			err = fmt.Errorf("%w: an argument that begins with -, such as the id of an agent, goes after all flags "+
				"and a --", err)
		}
		return cli.Usage(err)
	})
	root.Version = versions()
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Try it, and start agents:", []*cobra.Command{start.Dev(), start.Console(), start.Env(), start.Run(),
			start.Demo()}},
		{"Read what happened:", []*cobra.Command{
			records.Posts(chain.Export(), chain.Open()), chain.Verify(), records.Explain(), records.Events(),
			cli.Group("log", "The transparency log", keys.LogKey(), chain.LogAudit()),
		}},
		{"Run the processes:", append(processCommands(), keys.Setup(),
			operate.Config(), operate.Preset(), operate.Learn(), operate.Reload(),
			operate.Doctor(), operate.Guard(), records.Ledger())},
		{"Keys and certificates, for the security team:",
			[]*cobra.Command{keys.Keys(), keys.Deployment(), keys.CA(), keys.Vault()}},
		{"Verifications, and decisions about disputes:", []*cobra.Command{node.Verification(), node.Dispute()}},
		{"Challenges, for API owners:",
			[]*cobra.Command{challenges.Challenge(), challenges.Capability(), challenges.HashPayload()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(lookerCommand(), insideCommand())
	return root
}
