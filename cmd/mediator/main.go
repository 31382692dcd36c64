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
	"strings"
	"syscall"
	_ "time/tzdata" // the time zones, for a machine without them

	"github.com/spf13/cobra"

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

// errRefused ends a command with status 1 after the command has printed the reason itself.
var errRefused = errors.New("refused")

// usageError marks an error as wrong usage of a command.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run is the whole program except the process around it. Results go to stdout, everything else to stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage usageError
	var status launch.ExitStatus
	var endpoint daemon.EndpointError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, errRefused):
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
		Args:          noArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		serveCommand(), triggerCommand(), controlCommand(), lookerCommand(), devCommand(), demoCommand(), runCommand(),
		keysCommand(), deploymentCommand(), challengeCommand(), capabilityCommand(), hashPayloadCommand(), evidenceCommand(),
		postsCommand(), ledgerCommand(), eventsCommand(), doctorCommand(), reloadCommand(), guardCommand(), caCommand(), vaultCommand(), configCommand(), versionCommand(),
	)
	return root
}

// noArgs and exactArgs are cobra's checks of arguments, with wrong usage as their error.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s does not take the argument %q", c.CommandPath(), args[0])
	}
	return nil
}

func exactArgs(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%s takes %s", c.CommandPath(), what)
		}
		return nil
	}
}

// group makes a command that only holds other commands.
func group(use, about string, commands ...*cobra.Command) *cobra.Command {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.Name()
	}
	g := &cobra.Command{Use: use, Short: about + ": " + strings.Join(names, ", "), Args: func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("%s has no command %q", c.CommandPath(), args[0])
		}
		return nil
	}, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	g.AddCommand(commands...)
	return g
}

// required makes it wrong usage to leave out a flag.
func required(c *cobra.Command, flag string) {
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if before != nil {
			if err := before(c, args); err != nil {
				return err
			}
		}
		if !c.Flags().Changed(flag) {
			return usagef("%s needs --%s", c.CommandPath(), flag)
		}
		return nil
	}
}
