package keys

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/keyring"
)

type ownerFlags struct{ vaultFlags }

func (o *ownerFlags) add(c *cobra.Command) {
	o.vaultFlags.add(c, " (required)", "file with a Vault token of the keys' owner (required)")
	cli.Required(c, "address")
	cli.Required(c, "token-file")
}

func (o *ownerFlags) asOwner(work func(*vault.Owner) error) error {
	server, err := o.server()
	if err != nil {
		return err
	}
	defer server.Close()
	return work(server.Owner(&vault.TokenFile{Path: o.tokenFile}))
}

type rotateFlags struct {
	ownerFlags
	all, retire bool
	from        []string
	retireAfter time.Duration
}

const certifiedWithin = 5 * time.Minute

func keysRotate() *cobra.Command {
	var o rotateFlags
	c := &cobra.Command{
		Use:   "rotate KEY | --all --from unix:PATH, with --address URL --token-file FILE",
		Short: "Give keys in Vault a new version", Args: cobra.ArbitraryArgs,
		Example: `  mediator keys rotate runtime-key --address https://vault.example:8200 --token-file owner-token
  mediator keys rotate --all --retire-after 10m --address https://vault.example:8200 --token-file owner-token \
      --from unix:/run/mediator/admin.sock --from unix:/run/mediator/trigger.sock \
      --from unix:/run/mediator/control.sock
  # Keys in memory, as of mediator dev, are new at each start of their process.`,
		Long: `Gives a key of Vault's Transit engine a new version. Processes sign with it once keys certify has certified it
and every verifier knows it. Signatures of older versions are valid until they expire or the version is retired. --all
rotates every key of the processes of --from.

--retire-after waits until all processes of --from sign with the new versions, then that long, and retires the older
ones. Name every process that signs with the keys, and give at least 10m, the longest life of a signature. If a process
does not sign with a new version within five minutes, the older versions of that key stay (version_unused).

--retire retires the older versions at once, for a stolen key. Posts are refused until the new version is certified.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(c, args); err != nil {
				return err
			}
			return o.asOwner(func(owner *vault.Owner) error { return o.rotate(c, args, owner) })
		},
	}
	o.add(c)
	f := c.Flags()
	f.BoolVar(&o.all, "all", false, "rotate every key with which the processes of --from sign")
	f.StringArrayVar(&o.from, "from", nil,
		"internal endpoint of a process that signs with the keys, unix:PATH; once for each process")
	f.BoolVar(&o.retire, "retire", false, "retire all older versions now")
	f.DurationVar(&o.retireAfter, "retire-after", 0,
		"retire the older versions when the new ones have signed for so long; 0 retires none")
	cli.JSONFlag(c)
	return c
}

func (o *rotateFlags) check(c *cobra.Command, args []string) error {
	switch {
	case o.all != (len(args) == 0) || len(args) > 1:
		return cli.Usagef("%s needs the name of one key, or --all", c.CommandPath())
	case (o.all || o.retireAfter > 0) && len(o.from) == 0:
		return cli.Usagef("--all and --retire-after need --from, for each process that signs with the keys")
	case o.retireAfter < 0 || o.retire && o.retireAfter > 0 || o.retire && o.all:
		return cli.Usagef("--retire is for one key and without --retire-after, which is a positive time")
	}
	return processes(c, o.from)
}

func (o *rotateFlags) rotate(c *cobra.Command, keys []string, owner *vault.Owner) error {
	var changes []keyring.Rotated
	r := &keyring.Rotator{Owner: owner, From: o.from, RetireAfter: o.retireAfter, CertifiedWithin: certifiedWithin,
		Done: func(d keyring.Rotated) {
			if changes = append(changes, d); !cli.AsJSON(c) {
				fmt.Fprintln(cli.Plain(c.OutOrStdout()), rotatedText(d))
			}
		},
		Waiting: func() {
			fmt.Fprintf(c.ErrOrStderr(), "the new versions sign; the earlier ones are retired in %s\n", o.retireAfter)
		}}
	var unread error
	if o.all {
		roles, err := keyring.ReadRoles(c.Context(), o.from...)
		if err != nil {
			return err
		}
		keys, unread = keyring.KeysOf(roles), sayUnread(c, roles)
	}
	versions, err := r.Rotate(c.Context(), keys)
	switch {
	case o.retire:
		for key, version := range versions { // one at most
			err = errors.Join(err, r.Retire(c.Context(), key, version))
		}
	case o.retireAfter > 0:
		err = errors.Join(err, r.RetireEarlier(c.Context(), versions))
	}
	if cli.AsJSON(c) && len(changes) > 0 {
		err = errors.Join(cli.WriteJSON(c.OutOrStdout(), changes), err)
	}
	return cmp.Or(err, unread)
}

func keysRetire() *cobra.Command {
	var o ownerFlags
	var oldest int
	c := &cobra.Command{
		Use:   "retire KEY --oldest N --address URL --token-file FILE",
		Short: "Retire the older versions of a key in Vault", Args: cli.ExactArgs(1, "the name of a key"),
		Example: `  mediator keys retire runtime-key --oldest 3 \
      --address https://vault.example:8200 --token-file owner-token`,
		Long: `Makes Vault refuse the versions of a key before N (its min_decryption_version). Processes stop publishing them,
the next keys certify leaves out their certificates, and verifiers refuse their signatures (key_retired).`,
		RunE: func(c *cobra.Command, args []string) error {
			return o.asOwner(func(owner *vault.Owner) error {
				if err := owner.Retire(c.Context(), args[0], oldest); err != nil {
					return err
				}
				done := keyring.Rotated{Key: args[0], Oldest: oldest}
				return cli.Print(c, done, rotatedText(done))
			})
		},
	}
	o.add(c)
	c.Flags().IntVar(&oldest, "oldest", 0, "the oldest version to keep (required)")
	cli.Required(c, "oldest")
	cli.JSONFlag(c)
	return c
}

func rotatedText(d keyring.Rotated) string {
	if d.Version > 0 {
		return fmt.Sprintf(
			"made %s:v%d; within ten seconds mediator keys list shows it, and it signs once it is certified", d.Key,
			d.Version)
	}
	return fmt.Sprintf(
		"versions of %s before %d are retired; mediator posts list --key %[1]s:vN shows what one of them has signed",
		d.Key, d.Oldest)
}
