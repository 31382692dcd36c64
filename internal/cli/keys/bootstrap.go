package keys

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/cli"
)

type bootstrapFlags struct {
	vaultFlags
	print, apply     bool
	deliver          string // a process
	auth, mount, dir string
	roots            bool
	wrap             time.Duration
	audience         string
	accounts         []string
}

func vaultBootstrap() *cobra.Command {
	var b bootstrapFlags
	c := &cobra.Command{
		Use:   "bootstrap --print|--apply|--deliver PROCESS",
		Short: "Make the keys, policies and logins of every role in Vault",
		Args:  cli.NoArgs,
		Example: `  mediator vault bootstrap --print
  mediator vault bootstrap --apply --address https://vault.example:8200 --token-file admin-token
  mediator vault bootstrap --deliver serve --address https://vault.example:8200 --token-file admin-token --out secrets`,
		Long: `Makes the Transit engine; a key for each role, which cannot be exported, backed up in plaintext or deleted; a
policy for each key, which only allows signing with it and reading its public versions; and a login for each role.

With --roots and --auth kubernetes, --out gets the public keys of the registry and the auditor, and for each without a
service account a token and the YAML file that commands take as its key.

--print prints the commands for Vault's own command line. --apply runs them, skips what is right already, and refuses a
key with other properties. It makes no second secret id for a role. --deliver makes new secret ids for the roles of a
process, in files that replace the old ones: copy them to the process.`,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := b.options()
			if err != nil {
				return err
			}
			plan, err := bootstrap.New(o)
			if b.deliver != "" {
				plan, err = bootstrap.Deliver(o, b.deliver)
			}
			if err != nil {
				return cli.Usage(err)
			}
			if b.print {
				commands := plan.Commands()
				return cli.Print(c, commands, strings.Join(commands, "\n"))
			}
			return b.do(func(administrator *api.Client) error {
				done, err := plan.Apply(c.Context(), administrator)
				return errors.Join(cli.PrintText(c, done, func(w io.Writer) error {
					for _, d := range done {
						if _, err := fmt.Fprintln(w, d); err != nil {
							return err
						}
					}
					return nil
				}), err)
			})
		},
	}
	b.vaultFlags.add(c, "", "file with the token of an administrator")
	f := c.Flags()
	f.BoolVar(&b.print, "print", false, "print the commands")
	f.BoolVar(&b.apply, "apply", false, "carry them out")
	f.StringVar(&b.deliver, "deliver", "",
		"make new secret ids for the roles of a process: trigger, control, serve, reputation, registry or auditor")
	cli.JSONFlag(c)
	f.BoolVar(&b.roots, "roots", false, "include the registry's and the auditor's keys")
	f.StringVar(&b.auth, "auth", "approle", "how roles log in: approle or kubernetes")
	f.StringVar(&b.mount, "auth-mount", "", "mount of the auth method; its own name if empty")
	f.StringVar(&b.dir, "out", "secrets", "folder for role ids and wrapped secret ids; with kubernetes, "+
		"for the roots' files")
	f.DurationVar(&b.wrap, "wrap-ttl", time.Hour, "how long a wrapped secret id can be unwrapped, with approle")
	f.StringArrayVar(&b.accounts, "service-account", nil,
		"PROCESS=NAMESPACE/NAME, once for each account of trigger, control, serve, reputation, registry or auditor; "+
			"with kubernetes")
	f.StringVar(&b.audience, "audience", "vault", "aud of the service accounts' tokens, with kubernetes")
	return c
}

func (b *bootstrapFlags) options() (bootstrap.Options, error) {
	o := bootstrap.Options{Transit: b.transit, Roots: b.roots}
	mount, modes := cmp.Or(b.mount, b.auth), 0
	for _, given := range []bool{b.print, b.apply, b.deliver != ""} {
		if given {
			modes++
		}
	}
	switch {
	case modes != 1:
		return o, cli.Usagef("mediator vault bootstrap needs one of --print, --apply and --deliver")
	case !b.print && (b.address == "" || b.tokenFile == ""):
		return o, cli.Usagef("all but --print needs --address and --token-file")
	case b.auth == "approle":
		o.AppRole = &bootstrap.AppRole{Mount: mount, Dir: b.dir, Wrap: b.wrap}
	case b.auth == "kubernetes":
		o.Kubernetes = &bootstrap.Kubernetes{Mount: mount, Audience: b.audience, Dir: b.dir, CA: b.ca,
			Accounts: make(map[string][]string)}
		for _, given := range b.accounts {
			process, account, _ := strings.Cut(given, "=")
			o.Kubernetes.Accounts[process] = append(o.Kubernetes.Accounts[process], account)
		}
	default:
		return o, cli.Usagef("--auth is approle or kubernetes")
	}
	return o, nil
}
