package keys

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/ledger"
)

func keysList() *cobra.Command {
	var from, records []string
	var registry, bundle string
	var publication, jwks bool
	c := &cobra.Command{
		Use: "list --from unix:PATH", Short: "List what is known of each version of each key", Args: cli.NoArgs,
		Example: `  mediator keys list --dir .mediator
  mediator keys list --from unix:/run/mediator/admin.sock --record unix:/run/mediator/admin.sock \
      --bundle trust.json --registry registry.jwk
  mediator keys list --publication --from unix:/run/mediator/admin.sock > published.json`,
		Long: `Asks each process for the versions of its keys, when they were made, and which one signs now. --bundle and
--registry add from the trust bundle and its history when a version's certificate ends, when and why it was retired or
revoked, and versions that no process knows any more. --record adds from a sidecar's record, by its own word, the first
and the last post that rest on a version, and their number. A - means unknown.

--publication prints as JSON what keys certify asks the processes for: their roles, public keys and observations. Carry
it to the registry's key, for keys certify --from file:PATH. Nothing in it is secret, but an attacker who changes it on
the way gets their own key certified: compare the output of --jwks on both machines. --jwks prints the public keys
alone, for verifiers. It fails if a key cannot be read.

If a process, record or key cannot be read, standard error says so. The rest is listed, and the status is 1.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if (registry == "") != (bundle == "") {
				return cli.Usagef("--bundle and --registry belong together: the bundle has to be verified")
			}
			if publication || jwks {
				return printPublished(c, from, jwks)
			}
			var versions []keyring.Version
			var refused error
			for _, at := range from {
				roles, err := keyring.ReadRoles(c.Context(), at)
				if err != nil {
					fmt.Fprintf(cli.Lines(c.ErrOrStderr()), "%s cannot be read: %v%s\n", at, err, daemon.CodeOf(err))
					refused = cli.ErrRefused
					continue
				}
				if err := sayUnread(c, roles); err != nil {
					refused = err
				}
				versions = append(versions, keyring.VersionsOf(at, roles)...)
			}
			if bundle != "" {
				books, err := keyring.ReadBooks(registry, bundle, time.Now())
				if err != nil {
					return err
				}
				versions = books.Complete(versions)
			}
			if err := addUse(c, versions, records); err != nil {
				refused = err
			}
			return cmp.Or(cli.PrintTable(c, versions, row, "KEY", "ROLE", "STATE", "SIGNS NOW", "CREATED",
				"CERTIFIED UNTIL",
				"FIRST POST", "LAST POST", "POSTS", "CUSTODY", "EXPORTABLE", "ISSUER", "PROCESS"), refused)
		},
	}
	cli.Default(c, "from", func(dir string) []string { return devstack.New(dir).Endpoints() }, (*config.Context).All)
	fromFlag(c, &from)
	c.Flags().StringVar(&bundle, "bundle", "", "the trust bundle, to say what is certified, retired and revoked")
	c.Flags().StringVar(&registry, "registry", "", "the public file of the key registry, which has signed the bundle")
	c.Flags().StringArrayVar(&records, "record", nil,
		"internal endpoint of a sidecar, unix:PATH, whose record says what each version has signed; once for each "+
			"record")
	cli.FileFromDir(c, "bundle", devstack.BundleFile)
	cli.FileFromDir(c, "registry", devstack.RegistryFile)
	cli.DefaultEndpoint(c, "record", "serve", func(of *config.Context) string { return of.Admin })
	cli.JSONFlag(c)
	c.Flags().BoolVar(&publication, "publication", false, "print as JSON what keys certify asks the processes for")
	c.Flags().BoolVar(&jwks, "jwks", false, "print the public keys alone, as a JWKS for verifiers")
	c.MarkFlagsMutuallyExclusive("publication", "jwks", "bundle")
	c.MarkFlagsMutuallyExclusive("publication", "jwks", "record")
	return c
}

func printPublished(c *cobra.Command, from []string, jwks bool) error {
	p, err := keyring.ReadPublished(c.Context(), from)
	if err != nil {
		return err
	}
	unread := sayUnread(c, p.Roles)
	if !jwks {
		return errors.Join(cli.WriteJSON(c.OutOrStdout(), p.Publication), unread)
	}
	if unread != nil {
		return unread // verifiers would take a part for the whole set
	}
	var set jose.JSONWebKeySet
	for _, r := range p.Roles {
		set.Keys = append(set.Keys, r.Keys...)
	}
	return cli.WriteJSON(c.OutOrStdout(), set)
}

func addUse(c *cobra.Command, versions []keyring.Version, at []string) error {
	var all []ledger.KeyUse
	for _, one := range at {
		uses, err := admin.KeyUses(c.Context(), one)
		if err != nil {
			fmt.Fprintf(cli.Lines(c.ErrOrStderr()), "the record at %s cannot be read: %v%s\n", one, err,
				daemon.CodeOf(err))
			return cli.ErrRefused
		}
		all = append(all, uses...)
	}
	if len(at) > 0 {
		keyring.AddUse(versions, all)
	}
	return nil
}

func row(v keyring.Version) []any {
	signs := ""
	if v.Signs != nil {
		signs = map[bool]string{true: "yes", false: "no"}[*v.Signs]
	}
	var first, last *time.Time
	posts := ""
	if use := v.Use; use != nil {
		posts = strconv.FormatInt(use.Posts, 10)
		if use.Posts > 0 {
			first, last = &use.First, &use.Last
		}
	}
	return []any{v.KeyID, v.Purpose, cli.OrDash(v.State), cli.OrDash(signs), timeOrDash(v.Created), timeOrDash(v.Until),
		timeOrDash(first), timeOrDash(last), cli.OrDash(posts), v.Custody, v.Exportable, v.Issuer,
		cli.OrDash(v.Process)}
}

func timeOrDash(t *time.Time) string {
	if t == nil {
		return cli.OrDash("")
	}
	return t.Format(time.RFC3339)
}
