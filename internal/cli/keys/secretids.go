package keys

import (
	"errors"
	"io"
	"time"

	"github.com/hashicorp/vault/api"
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/cli"
)

func vaultSecretIDs() *cobra.Command {
	var v vaultFlags
	var mount string
	var roots, asJSON bool
	var older time.Duration
	c := &cobra.Command{
		Use: "secret-ids --address URL --token-file FILE", Short: "List, and prune, the secret ids that roles log in to Vault with", Args: cli.NoArgs,
		Example: `  mediator vault secret-ids --address https://vault.example:8200 --ca vault-ca.pem --token-file admin-token
  mediator vault secret-ids --prune-older-than 720h --address https://vault.example:8200 --ca vault-ca.pem --token-file admin-token`,
		Long: `Lists the secret ids of each role's AppRole by their accessors, the newest first. A process whose secret id is destroyed works on until
its token ends, at most a day; it needs another one then (mediator vault bootstrap --deliver).
--prune-older-than destroys those that were made longer ago, but never the newest one of a role.`,
		RunE: func(c *cobra.Command, _ []string) error {
			o := bootstrap.Options{Transit: v.transit, Roots: roots, AppRole: &bootstrap.AppRole{Mount: mount}}
			return v.do(func(administrator *api.Client) error {
				ids, err := bootstrap.SecretIDs(c.Context(), administrator, o)
				if err == nil && older > 0 {
					err = bootstrap.Prune(c.Context(), administrator, o, ids, time.Now().Add(-older))
				}
				return errors.Join(cli.PrintText(c, asJSON, ids, func(w io.Writer) error { return printSecretIDs(w, ids) }), err)
			})
		},
	}
	v.add(c, " (required)", "file with the token of an administrator (required)")
	cli.Required(c, "address")
	cli.Required(c, "token-file")
	f := c.Flags()
	f.StringVar(&mount, "auth-mount", "approle", "mount of the auth method")
	f.BoolVar(&roots, "roots", false, "those of the registry and the auditor too")
	f.DurationVar(&older, "prune-older-than", 0, "destroy those that were made longer ago, such as 720h; 0 destroys none")
	cli.Check(c, func(*cobra.Command) error {
		if older < 0 {
			return cli.Usagef("--prune-older-than is not negative")
		}
		return nil
	})
	cli.JSONFlag(c, &asJSON)
	return c
}

func printSecretIDs(w io.Writer, ids []bootstrap.SecretID) error {
	table := cli.Table(w)
	for _, id := range ids {
		state := ""
		if id.Pruned {
			state = "destroyed"
		}
		table.Row(id.Process, id.Purpose, cli.Time(id.Created), id.Accessor, state)
	}
	return table.Flush()
}
