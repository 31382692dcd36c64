package keys

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/vaultaudit"
)

func keysHistory() *cobra.Command {
	var registry, bundle, mount, since, until string
	c := &cobra.Command{
		Use: "history [LOG...]", Short: "List who has certified, retired, revoked and rotated which keys, and when",
		Example: `  mediator keys history --dir .mediator
  mediator keys history --bundle trust.json --registry registry.jwk --since 2026-03-01 vault-audit.log`,
		Long: `Lists, oldest first, what the key registry signed in the trust bundle and its history, and each rotation in
files of Vault's audit log, with the name and the address of the token.`,
		RunE: func(c *cobra.Command, logs []string) error {
			now := time.Now()
			from, to, err := period(since, until, now)
			if err != nil {
				return cli.Usage(err)
			}
			if to.IsZero() {
				to = now
			}
			books, err := keyring.ReadBooks(registry, bundle, now)
			if err != nil {
				return err
			}
			events := books.Events()
			for _, path := range logs {
				rotated, err := loggedRotations(c, path, mount)
				if err != nil {
					return err
				}
				events = append(events, rotated...)
			}
			var listed []keyring.Event
			for _, e := range keyring.Sorted(events) {
				if !e.Time.Before(from) && e.Time.Before(to) {
					listed = append(listed, e)
				}
			}
			return cli.PrintTable(c, listed, func(e keyring.Event) []any {
				return []any{e.Time.Format(time.RFC3339), e.Change, e.KeyID, cli.OrDash(e.Purpose), e.By,
					cli.OrDash(e.Reason)}
			}, "TIME", "CHANGE", "KEY", "ROLE", "BY", "REASON")
		},
	}
	f := c.Flags()
	f.StringVar(&bundle, "bundle", "", "the trust bundle (required)")
	f.StringVar(&registry, "registry", "",
		"the public file of the key registry, which has signed the bundle (required)")
	f.StringVar(&since, "since", "",
		"only what happened at this time or later: a time, a date, or how long ago, as for posts list")
	f.StringVar(&until, "until", "", "only what happened before this time")
	f.StringVar(&mount, "transit", "transit", "mount of the Transit engine, in Vault's audit log")
	cli.Required(c, "bundle")
	cli.Required(c, "registry")
	cli.FileFromDir(c, "bundle", devstack.BundleFile)
	cli.FileFromDir(c, "registry", devstack.RegistryFile)
	cli.JSONFlag(c)
	return c
}

func loggedRotations(c *cobra.Command, path, mount string) (events []keyring.Event, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	logs := vaultaudit.Logs{Mount: mount, Note: note(c), Files: []vaultaudit.Log{{Name: path, From: file}}}
	for r, err := range logs.Rotations() {
		if err != nil {
			return nil, err
		}
		events = append(events,
			keyring.Event{Time: r.Time, Change: keyring.EventRotated, KeyID: r.Key, By: r.By + " from " +
				cli.OrDash(r.Remote)})
	}
	return events, nil
}
