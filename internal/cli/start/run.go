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
  mediator run --loop -- ./agent
  mediator run --learn -- ./agent
  mediator run --event evt_06H0B6F94I1DA18S9D2LMK03AS --env OPENAI_API_KEY=none -- python3 agent.py`,
		Long: `Opens a session for the event, starts CMD in it, and ends the session and all processes of the run when CMD
ends. The exit status is that of CMD, or 128 plus the number of the signal that ended it.

CMD runs isolated, in its own namespaces: with its own processes, terminals, /tmp, /run and /dev, and a network whose
only way out is the mediator. Started by root, it gets its own user. It gets no terminal, an empty standard input, no
other open file, and from the environment PATH, LANG, LANGUAGE, LC_*, TZ, TERM and the variables of --env. It starts in
the current folder if its user can enter it.

If the machine forbids namespaces, mediator run says why and runs CMD without them, as agent.uid or, if root starts it,
as an unprivileged user. Access to such a run, as with --uid, is only declared.

With --learn, CMD gets no event and may read from every public host that no rule denies: GET, HEAD, OPTIONS, and the
reads of MCP and GraphQL. Egress rules apply as usual, but no credential is added. All else is refused and recorded, for
mediator learn. It needs session.learning in the sidecar's configuration, and isolation.`,
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
					"mediator run --uid and --require-isolation exclude each other: an isolated agent has a user of " +
						"its own")
			}
			if (o.Wait || o.Loop) && (o.Learn || o.Event != "") {
				return cli.Usagef("mediator run --wait and --loop take the next event: leave --event and --learn out")
			}
			if o.Learn && o.Event != "" {
				return cli.Usagef("mediator run --learn takes no event: leave --event out")
			}
			if o.Bounds.Processes < 32 || o.Bounds.TempMiB < 1 { // threads of pid 1 in the run can count as the agent's
				return cli.Usagef("mediator run --max-processes is 32 at least, and --tmp-size 1")
			}
			o.Args, o.Stdout, o.Stderr = args, c.OutOrStdout(), c.ErrOrStderr()
			// A closed terminal or reader of the output must not leave the session open.
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGHUP, syscall.SIGQUIT)
			defer stop()
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			return launch.Run(ctx, o)
		},
	}
	cli.AdminFlag(c, &o.Admin)
	c.Flags().StringVar(&o.Event, "event", "", "the event that opens the session; empty takes the next one that waits")
	c.Flags().BoolVar(&o.Wait, "wait", false, "wait for an event if none waits")
	c.Flags().BoolVar(&o.Loop, "loop", false,
		"start CMD again and again, in one session for each event, until a signal")
	c.Flags().BoolVar(&o.Learn, "learn", false,
		"for mediator learn: start CMD in a learning session, which posts nothing and needs no event")
	c.Flags().IntVar(&o.UID, "uid", launch.OwnUser,
		"the user to run CMD as, -1 for this one; CMD shares its files, and access to the run is only declared")
	c.Flags().Lookup("uid").DefValue = "0" // prints no number
	c.Flags().BoolVar(&o.RequireIsolation, "require-isolation", false,
		"start CMD only if it can be isolated, with a user of its own")
	c.Flags().IntVar(&o.Bounds.Processes, "max-processes", isolate.DefaultBounds.Processes,
		"the most processes and threads of the run at once")
	c.Flags().IntVar(&o.Bounds.TempMiB, "tmp-size", isolate.DefaultBounds.TempMiB,
		"the size of the private /tmp, /var/tmp, /run and /dev together, in MiB of memory")
	c.Flags().StringArrayVar(&o.Env, "env", nil,
		"a variable for CMD: NAME=VALUE, or NAME with its value here; may be repeated")
	return c
}
