package keys

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/internal/cli"
)

// ownerFlags are the flags of commands that work on keys in Vault with the token of their owner.
type ownerFlags struct{ vaultFlags }

func (o *ownerFlags) add(c *cobra.Command) {
	o.vaultFlags.add(c, " (required)", "file with a Vault token of the keys' owner (required)")
	cli.Required(c, "address")
	cli.Required(c, "token-file")
}

// asOwner calls work with the owner of the keys.
func (o *ownerFlags) asOwner(work func(*vault.Owner) error) error {
	server, err := o.server()
	if err != nil {
		return err
	}
	defer server.Close()
	return work(server.Owner(&vault.TokenFile{Path: o.tokenFile}))
}

func keysRotate() *cobra.Command {
	var o ownerFlags
	var retire, asJSON bool
	c := &cobra.Command{
		Use: "rotate KEY --address URL --token-file FILE", Short: "Give a key in Vault a new version", Args: cli.ExactArgs(1, "the name of a key"),
		Long: `Gives a key of Vault's Transit engine a new version, as vault write -f transit/keys/KEY/rotate does. Processes sign with it once
mediator keys certify has certified it (at once where keys certify --watch runs) and every verifier has had the time to see that. What older
versions have signed is good until it expires or they are retired.
With --retire the older versions are retired at the same time, because one of them may be in wrong hands: nothing is signed with them any
more, posts are refused until the new version is certified, and from then on nothing that they have signed is accepted.`,
		RunE: func(c *cobra.Command, args []string) error {
			return o.asOwner(func(owner *vault.Owner) error {
				version, err := owner.Rotate(c.Context(), args[0])
				if err != nil {
					return err
				}
				done := keyDone{Key: args[0], Version: version}
				if retire {
					if err = owner.Retire(c.Context(), args[0], version); err == nil {
						done.Oldest = version
					}
				}
				return errors.Join(cli.Print(c, asJSON, done, done.String()), err)
			})
		},
	}
	o.add(c)
	c.Flags().BoolVar(&retire, "retire", false, "retire all older versions now")
	cli.JSONFlag(c, &asJSON)
	return c
}

func keysRetire() *cobra.Command {
	var o ownerFlags
	var oldest int
	var asJSON bool
	c := &cobra.Command{
		Use: "retire KEY --oldest N --address URL --token-file FILE", Short: "Retire the older versions of a key in Vault", Args: cli.ExactArgs(1, "the name of a key"),
		Long: `Has Vault accept no version of a key before N (its min_decryption_version). Processes publish them no more, the certificates of them
are left out when the key is certified next (at once where keys certify --watch runs), and verifiers then refuse what they have signed, as
key_retired.`,
		RunE: func(c *cobra.Command, args []string) error {
			return o.asOwner(func(owner *vault.Owner) error {
				if err := owner.Retire(c.Context(), args[0], oldest); err != nil {
					return err
				}
				done := keyDone{Key: args[0], Oldest: oldest}
				return cli.Print(c, asJSON, done, done.String())
			})
		},
	}
	o.add(c)
	c.Flags().IntVar(&oldest, "oldest", 0, "the oldest version to keep (required)")
	cli.Required(c, "oldest")
	cli.JSONFlag(c, &asJSON)
	return c
}

// keyDone is the result of a command that works on a key in Vault.
type keyDone struct {
	Key     string `json:"key"`
	Version int    `json:"version,omitempty"` // the new version
	Oldest  int    `json:"oldest,omitempty"`  // the oldest version that is kept; earlier ones are retired
}

// String returns one line for each change.
func (d keyDone) String() string {
	var lines []string
	if d.Version > 0 {
		lines = append(lines, fmt.Sprintf("%s:v%d is there; it signs once it is certified", d.Key, d.Version))
	}
	if d.Oldest > 0 {
		lines = append(lines, fmt.Sprintf("versions of %s before %d are retired; mediator posts list --key %[1]s:vN shows what one of them has signed", d.Key, d.Oldest))
	}
	return strings.Join(lines, "\n")
}
