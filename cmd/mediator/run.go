package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/launch"
)

func runCommand() *cobra.Command {
	o := launch.Options{}
	c := &cobra.Command{
		Use:   "run [--event ID] [flags] -- CMD [ARG ...]",
		Short: "Start an agent in a session of its own, opened by one event",
		Long: `Opens a session for the event, starts CMD with the proxy environment, without a terminal and with an empty standard input,
and ends the session when CMD ends, and whatever CMD has left behind. The exit status is CMD's, or 128 and the number of the signal that
ended it. The sidecar looks at CMD's processes as long as the session is open, where it can see them.

Started by root, CMD runs as an unprivileged user (see --uid), so that the mediator's sockets and files are out of its reach.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("mediator run needs the command to start, after --")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case !c.Flags().Changed("uid"):
			// The lower 32 bits of a larger number could be root's. The last 32-bit number is no user (setuid(2)).
			case o.UID < launch.SameUser || o.UID >= math.MaxUint32:
				return usagef("mediator run --uid %d: that is no user", o.UID)
			}
			o.Args, o.Stdout, o.Stderr = args, c.OutOrStdout(), c.ErrOrStderr()
			return launch.Run(c.Context(), o)
		},
	}
	adminFlag(c, &o.Admin)
	c.Flags().StringVar(&o.Event, "event", "", "the event that opens the session; empty takes the next one that waits")
	c.Flags().IntVar(&o.UID, "uid", launch.SessionUser, "the user to run CMD as, -1 for this one; default when started by root the configuration's agent.uid, or "+fmt.Sprint(launch.DefaultUID)+", else this one")
	c.Flags().Lookup("uid").DefValue = "0" // prints no number
	return c
}
