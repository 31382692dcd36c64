package keys

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
)

// Keys returns the commands about signing keys.
func Keys() *cobra.Command {
	return cli.Group("keys", "Signing keys", keysList(), keysHistory(), keysRoot(), keysCertify(),
		keysRotate(), keysRetire(), keysRevoke())
}

func fromFlag(c *cobra.Command, from *[]string) {
	c.Flags().StringArrayVar(from, "from", nil, "internal endpoint of a process that holds keys, "+cli.Endpoint+
		", or file:PATH of what mediator keys list --publication has printed there; once for each process (required)")
	cli.Required(c, "from")
}

// processes refuses a file among the endpoints of a command that needs running processes.
func processes(c *cobra.Command, from []string) error {
	if slices.ContainsFunc(from, func(at string) bool { _, ok := keyring.PublishedFile(at); return ok }) {
		return cli.Usagef("%s asks running processes, and reads no file", c.CommandPath())
	}
	return nil
}

func note(c *cobra.Command) func(sentence string) {
	return func(sentence string) { fmt.Fprintln(cli.Lines(c.ErrOrStderr()), "mediator: "+sentence) }
}

func period(since, until string, now time.Time) (from, to time.Time, err error) {
	if since != "" {
		from, err = admin.ParseTime(since, now)
	}
	if until != "" && err == nil {
		to, err = admin.ParseTime(until, now)
	}
	return from, to, err
}

// sayUnread prints which keys the processes cannot read, and why. It returns cli.ErrRefused if there is one.
func sayUnread(c *cobra.Command, roles []daemon.RoleDocument) (err error) {
	w := cli.Lines(c.ErrOrStderr())
	for _, r := range roles {
		if r.Unread != nil {
			fmt.Fprintf(w, "the key %s of the role %s cannot be read: %s (%s)\n", r.Unread.Name, r.Purpose,
				r.Unread.Because, r.Unread.Code)
			err = cli.ErrRefused
		}
	}
	return err
}
