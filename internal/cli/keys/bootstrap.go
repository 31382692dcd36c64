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

// bootstrapFlags are the flags of vault bootstrap: what to make in Vault, and with which token.
type bootstrapFlags struct {
	vaultFlags
	print, apply     bool
	deliver          string // a process
	asJSON           bool
	auth, mount, dir string
	roots            bool
	wrap             time.Duration
	audience         string
	accounts         map[string]string
}

func vaultBootstrap() *cobra.Command {
	var b bootstrapFlags
	c := &cobra.Command{
		Use: "bootstrap --print | --apply | --deliver PROCESS, with --address URL --token-file FILE", Short: "Make the keys, policies and logins of every role in Vault", Args: cli.NoArgs,
		Example: `  mediator vault bootstrap --print
  mediator vault bootstrap --apply --address https://vault.example:8200 --ca vault-ca.pem --token-file admin-token
  mediator vault bootstrap --deliver serve --address https://vault.example:8200 --ca vault-ca.pem --token-file admin-token --out secrets`,
		Long: `Shows, or carries out, what Vault needs: the Transit engine; a key for each role, which can be neither exported, nor backed up in
plaintext, nor deleted; a policy for each key, with which a token signs with that key, reads its public versions, and does nothing else; and
for each role a login of its own.
--print writes the commands for Vault's own command line. --apply does the same with a token that may do it, leaves alone what is there and
right, says what it did, and refuses a key that is not as it should be. A role that has a secret id gets no other one.
--deliver gives each role of a process another secret id, in a file in place of the one that is there: copy the files to the process.`,
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
				return cli.Print(c, b.asJSON, commands, strings.Join(commands, "\n"))
			}
			return b.do(func(administrator *api.Client) error {
				done, err := plan.Apply(c.Context(), administrator)
				return errors.Join(cli.PrintText(c, b.asJSON, done, func(w io.Writer) error {
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
	b.vaultFlags.add(c, ", for --apply", "file with the token of an administrator, for --apply")
	f := c.Flags()
	f.BoolVar(&b.print, "print", false, "print the commands")
	f.BoolVar(&b.apply, "apply", false, "carry them out")
	f.StringVar(&b.deliver, "deliver", "", "make new secret ids for the roles of a process: trigger, control, serve, reputation, registry or auditor")
	cli.JSONFlag(c, &b.asJSON)
	f.BoolVar(&b.roots, "roots", false, "the registry's and the auditor's keys are kept in Vault too")
	f.StringVar(&b.auth, "auth", "approle", "how roles log in: approle or kubernetes")
	f.StringVar(&b.mount, "auth-mount", "", "mount of the auth method; its own name if empty")
	f.StringVar(&b.dir, "out", "secrets", "folder for role ids and wrapped secret ids, with approle")
	f.DurationVar(&b.wrap, "wrap-ttl", time.Hour, "for how long a wrapped secret id can be unwrapped, with approle")
	f.StringToStringVar(&b.accounts, "service-account", nil, "PROCESS=NAMESPACE/NAME, once for each process: trigger, control, serve, reputation, registry, auditor; with kubernetes")
	f.StringVar(&b.audience, "audience", "vault", "aud of the service accounts' tokens, with kubernetes")
	return c
}

// options returns the flags as the options of a plan.
func (b *bootstrapFlags) options() (bootstrap.Options, error) {
	o := bootstrap.Options{Transit: b.transit, Roots: b.roots}
	mount := cmp.Or(b.mount, b.auth)
	switch {
	case b.print == (b.apply || b.deliver != "") || b.apply && b.deliver != "":
		return o, cli.Usagef("mediator vault bootstrap needs one of --print and --apply, or --deliver")
	case b.deliver != "" && (b.address == "" || b.tokenFile == ""):
		return o, cli.Usagef("--deliver needs --address and --token-file")
	case b.apply && (b.address == "" || b.tokenFile == ""):
		return o, cli.Usagef("--apply needs --address and --token-file")
	case b.auth == "approle":
		o.AppRole = &bootstrap.AppRole{Mount: mount, Dir: b.dir, Wrap: b.wrap}
	case b.auth == "kubernetes":
		o.Kubernetes = &bootstrap.Kubernetes{Mount: mount, Audience: b.audience, Accounts: b.accounts}
	default:
		return o, cli.Usagef("--auth is approle or kubernetes")
	}
	return o, nil
}
