package start

import (
	"math"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/isolate"
	"github.com/actionproof/mediator/internal/launch"
)

// Run returns the command that starts an agent in a session of its own.
func Run() *cobra.Command {
	o := launch.Options{}
	c := &cobra.Command{
		Use:   "run [--event ID] [flags] -- CMD [ARG ...]",
		Short: "Start an agent in a session of its own, opened by one event",
		Example: `  mediator run -- ./agent
  mediator run --event evt_06H0B6F94I1DA18S9D2LMK03AS --env OPENAI_API_KEY=none -- python3 agent.py`,
		Long: `Opens a session for the event, starts CMD in it, and ends the session and all processes of the run when CMD
ends. The exit status is that of CMD, or 128 plus the number of the signal that ended it.

CMD runs isolated, in namespaces of its own: with its own processes, terminals, /tmp, /run and /dev, and a network
whose only way out is the mediator. Started by root, it gets a user of its own. It gets no terminal, an empty standard
input, no other open file, and of the environment PATH, LANG, LANGUAGE, LC_*, TZ, TERM and what --env names. It starts
in the current folder if its user can enter it.

Where namespaces cannot be made, CMD runs without them, as agent.uid or, if root starts it, as an unprivileged user;
mediator run then says why. Who can reach such a run is only declared. The same is true of --uid and --share-network.
--require-isolation refuses to start CMD instead.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("mediator run needs the command to start, after --")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case !c.Flags().Changed("uid"):
			// The lower 32 bits of a larger number could be root's. The last 32-bit number is no user (setuid(2)).
			case o.UID < launch.SameUser || o.UID >= math.MaxUint32: // 0 and -1 are for launch to judge, by who starts it
				return cli.Usagef("mediator run --uid %d: that is no user", o.UID)
			case o.RequireIsolation:
				return cli.Usagef(
					"mediator run --uid and --require-isolation exclude each other: an isolated agent has a user of its own")
			}
			if o.Bounds.Processes < 32 || o.Bounds.TempMiB < 1 { // threads of pid 1 in the run can count as the agent's
				return cli.Usagef("mediator run --max-processes is 32 at least, and --tmp-size 1")
			}
			if o.ShareNetwork && o.RequireIsolation {
				return cli.Usagef("mediator run --share-network and --require-isolation exclude each other")
			}
			o.Args, o.Stdout, o.Stderr = args, c.OutOrStdout(), c.ErrOrStderr()
			// A terminal that is closed, or a reader of the output that has gone, must not leave the session open.
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGHUP, syscall.SIGQUIT)
			defer stop()
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			return launch.Run(ctx, o)
		},
	}
	cli.AdminFlag(c, &o.Admin)
	c.Flags().StringVar(&o.Event, "event", "", "the event that opens the session; empty takes the next one that waits")
	c.Flags().IntVar(&o.UID, "uid", launch.OwnUser,
		"the user to run CMD as, -1 for this one; it shares this user's files and, if root starts it, that makes who can "+
			"reach it only declared")
	c.Flags().Lookup("uid").DefValue = "0" // prints no number
	c.Flags().BoolVar(&o.ShareNetwork, "share-network", false,
		"keep this network: CMD finds the proxy by its environment, and can go around it unless mediator guard stops it")
	c.Flags().BoolVar(&o.RequireIsolation, "require-isolation", false,
		"start CMD only if it can be isolated, with a user of its own")
	c.Flags().IntVar(&o.Bounds.Processes, "max-processes", isolate.DefaultBounds.Processes,
		"how many processes and threads CMD may have at once, with all that it starts")
	c.Flags().IntVar(&o.Bounds.TempMiB, "tmp-size", isolate.DefaultBounds.TempMiB,
		"the size of CMD's private /tmp, /var/tmp, /run and /dev together, in MiB of memory")
	c.Flags().StringArrayVar(&o.Env, "env", nil,
		"a variable for CMD, NAME=VALUE, or NAME with the value that it has here; may be repeated")
	return c
}
