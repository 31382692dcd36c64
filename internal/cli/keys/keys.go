package keys

import (
	"fmt"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
)

// Keys returns the commands about signing keys.
func Keys() *cobra.Command {
	return cli.Group("keys", "Signing keys", keysList(), keysHistory(), keysJWKS(), keysPublish(), keysRoot(), keysCertify(),
		keysRotate(), keysRetire(), keysRevoke())
}

// orFile ends the help of a flag that takes a process or a file.
const orFile = ", or file:PATH of what mediator keys publish has printed there"

func fromFlag(c *cobra.Command, from *[]string, or string) {
	c.Flags().StringArrayVar(from, "from", nil, "internal endpoint of a process that holds keys, unix:PATH"+or+"; once for each process (required)")
	cli.Required(c, "from")
}

// fromOrDirFlag is fromFlag for a command that --dir can name all processes of a mediator dev to.
func fromOrDirFlag(c *cobra.Command, from *[]string, or string) {
	cli.AllFromDir(c, "from", func(dir string) []string { return devstack.New(dir).Endpoints() })
	fromFlag(c, from, or)
}

// sayUnread says which keys the processes cannot read, and why. It returns cli.ErrRefused if there is one.
func sayUnread(c *cobra.Command, roles []daemon.RoleDocument) (err error) {
	w := cli.Lines(c.ErrOrStderr())
	for _, r := range roles {
		if r.Unread != nil {
			fmt.Fprintf(w, "the key %s of the role %s cannot be read: %s (%s)\n", r.Unread.Name, r.Purpose, r.Unread.Because, r.Unread.Code)
			err = cli.ErrRefused
		}
	}
	return err
}

func keysJWKS() *cobra.Command {
	var from []string
	c := &cobra.Command{
		Use: "jwks --from unix:PATH", Short: "Print the public keys as a JWKS, for verifiers", Args: cli.NoArgs,
		Example: `  mediator keys jwks --from unix:/run/mediator/admin.sock > jwks.json`,
		RunE: func(c *cobra.Command, _ []string) error {
			roles, err := keyring.ReadRoles(c.Context(), from)
			if err != nil {
				return err
			}
			if err := sayUnread(c, roles); err != nil {
				return err // verifiers would take a set for the whole
			}
			var set jose.JSONWebKeySet
			for _, r := range roles {
				set.Keys = append(set.Keys, r.Keys...)
			}
			return cli.WriteJSON(c.OutOrStdout(), set)
		},
	}
	fromOrDirFlag(c, &from, orFile)
	return c
}

func keysPublish() *cobra.Command {
	var from []string
	c := &cobra.Command{
		Use: "publish --from unix:PATH", Short: "Print what running processes say of their keys, to certify on another machine", Args: cli.NoArgs,
		Example: `  mediator keys publish --from unix:/run/mediator/admin.sock > keys.json`,
		Long: `Prints roles, public keys and what the processes have seen of them, as JSON: what mediator keys certify would ask for. Carry it to
where the registry's key is, and give it to keys certify --from file:PATH. Nothing in it is secret; but whoever can change it on its way has a
key of his own certified, so compare what mediator keys jwks prints of the processes there and of the file here.`,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := keyring.ReadPublished(c.Context(), from)
			if err != nil {
				return err
			}
			if err := cli.WriteJSON(c.OutOrStdout(), p.Publication); err != nil {
				return err
			}
			return sayUnread(c, p.Roles)
		},
	}
	fromOrDirFlag(c, &from, "")
	return c
}
