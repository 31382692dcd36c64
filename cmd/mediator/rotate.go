package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody/vault"
)

// ownerFlags say where keys are in Vault, and who works on them.
type ownerFlags struct{ address, ca, tokenFile, transit string }

func (o *ownerFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.address, "address", "", "https://host:port of Vault (required)")
	f.StringVar(&o.ca, "ca", "", "PEM certificates that sign Vault's; the system's if empty")
	f.StringVar(&o.tokenFile, "token-file", "", "file with a Vault token of the keys' owner (required)")
	f.StringVar(&o.transit, "transit", "transit", "mount of the Transit engine")
	required(c, "address")
	required(c, "token-file")
}

// work has do work on the keys.
func (o *ownerFlags) work(do func(*vault.Owner) error) error {
	server, err := vault.NewServer(vault.Options{Address: o.address, CAFile: o.ca, Mount: o.transit, Timeout: 10 * time.Second, Log: zap.NewNop(), Now: time.Now})
	if err != nil {
		return err
	}
	defer server.Close()
	return do(server.Owner(&vault.TokenFile{Path: o.tokenFile}))
}

func keysRotateCommand() *cobra.Command {
	var o ownerFlags
	var retire bool
	c := &cobra.Command{
		Use: "rotate KEY --address URL --token-file FILE", Short: "Give a key in Vault a new version", Args: exactArgs(1, "the name of a key"),
		Long: `Gives a key of Vault's Transit engine a new version, as vault write -f transit/keys/KEY/rotate does. Processes sign with it once
mediator keys certify has certified it (at once where keys certify --watch runs) and every verifier has had the time to see that. What older
versions have signed is good until it expires or they are retired.
With --retire the older versions are retired at the same time, because one of them may be in wrong hands: nothing is signed with them any
more, posts are refused until the new version is certified, and from then on nothing that they have signed is accepted.`,
		RunE: func(c *cobra.Command, args []string) error {
			return o.work(func(owner *vault.Owner) error {
				version, err := owner.Rotate(c.Context(), args[0])
				if err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "%s:v%d is there; it signs once it is certified\n", args[0], version)
				if !retire {
					return nil
				}
				return printRetired(c, owner, args[0], version)
			})
		},
	}
	o.add(c)
	c.Flags().BoolVar(&retire, "retire", false, "retire all older versions now")
	return c
}

func keysRetireCommand() *cobra.Command {
	var o ownerFlags
	var oldest int
	c := &cobra.Command{
		Use: "retire KEY --oldest N --address URL --token-file FILE", Short: "Retire the older versions of a key in Vault", Args: exactArgs(1, "the name of a key"),
		Long: `Has Vault accept no version of a key before N (its min_decryption_version). Processes publish them no more, the certificates of them
are left out when the key is certified next (at once where keys certify --watch runs), and verifiers then refuse what they have signed, as
key_retired.`,
		RunE: func(c *cobra.Command, args []string) error {
			return o.work(func(owner *vault.Owner) error { return printRetired(c, owner, args[0], oldest) })
		},
	}
	o.add(c)
	c.Flags().IntVar(&oldest, "oldest", 0, "the oldest version to keep (required)")
	required(c, "oldest")
	return c
}

func printRetired(c *cobra.Command, owner *vault.Owner, key string, oldest int) error {
	if err := owner.Retire(c.Context(), key, oldest); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "versions of %s before %d are retired; mediator posts list --key %s:vN shows what one of them has signed\n", key, oldest, key)
	return err
}
