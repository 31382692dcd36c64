package keys

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
)

// Keys returns the commands about signing keys.
func Keys() *cobra.Command {
	return cli.Group("keys", "Signing keys", keysList(), keysHistory(), keysRoot(), keysCertify(),
		keysRotate(), keysRetire(), keysRevoke())
}

// orFile ends the help of a flag that takes a process or a file.
const orFile = ", or file:PATH of what mediator keys list --publication has printed there"

func fromFlag(c *cobra.Command, from *[]string, or string) {
	c.Flags().StringArrayVar(from, "from", nil,
		"internal endpoint of a process that holds keys, "+cli.Endpoint+or+"; once for each process (required)")
	cli.Required(c, "from")
}

// fromOrDirFlag is fromFlag for a command to which --dir or a context names all processes.
func fromOrDirFlag(c *cobra.Command, from *[]string, or string) {
	cli.Default(c, "from", func(dir string) []string { return devstack.New(dir).Endpoints() }, (*config.Context).All)
	fromFlag(c, from, or)
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
