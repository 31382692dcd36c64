package keys

import (
	"cmp"
	"fmt"
	"os"

	"github.com/hashicorp/vault/api"
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/setup"
)

// Setup returns the command that prepares a machine for the processes.
func Setup() *cobra.Command {
	var dir, file string
	c := &cobra.Command{
		Use: "setup", Short: "Prepare this machine to run the processes, or pin and certify changed files",
		Args: cli.NoArgs, Example: `  mediator setup
  mediator setup --file answers.yaml`,
		Long: `Asks what the machine is for, or reads the answers from a file. Then it makes the root keys, unless they are
elsewhere; writes the configuration files with the rules of presets, and secrets for webhooks; makes keys and logins in
Vault, if the keys are there; gives each secret to the user of the process that reads it; and pins and certifies policy
and environment in the manifest.

Repeat it after each change of a file and after each upgrade. It replaces no key, no secret and no configuration file,
apart from the two hashes in the manifest.`,
		RunE: func(c *cobra.Command, _ []string) error {
			done := []bootstrap.Done{}
			s := setup.Setup{Dir: dir, User: setup.LookUp, Did: func(d bootstrap.Done) {
				if done = append(done, d); !cli.AsJSON(c) {
					fmt.Fprintln(cli.Plain(c.OutOrStdout()), d)
				}
			}, Vault: func(v setup.Vault, do func(*api.Client) error) error {
				at := vaultFlags{address: v.Address, ca: v.CA, tokenFile: v.TokenFile, transit: "transit"}
				return at.do(do)
			}}
			var a setup.Answers
			var err error
			switch {
			case file != "":
				a, err = setup.Read(file)
			case s.Fresh():
				a, err = setup.Ask(c.InOrStdin(), c.ErrOrStderr())
			}
			if err != nil {
				return err
			}
			if os.Geteuid() != 0 {
				return cli.Usagef("%s gives files to other users: run it as root", c.CommandPath())
			}
			err = s.Run(c.Context(), a)
			if cli.AsJSON(c) {
				return cmp.Or(err, cli.WriteJSON(c.OutOrStdout(), done))
			}
			return err
		},
	}
	c.Flags().StringVar(&dir, "dir", "/etc/mediator", "folder of the configuration")
	c.Flags().StringVar(&file, "file", "", "file with the answers, as the package's /etc/mediator/setup.yaml")
	cli.JSONFlag(c)
	return c
}
