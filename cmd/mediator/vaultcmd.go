package main

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/files"
)

func vaultCommand() *cobra.Command {
	return group("vault", "Keys in HashiCorp Vault", vaultBootstrap(), vaultAudit())
}

// bootstrapFlags are the flags of vault bootstrap: what to make in Vault, and with which token.
type bootstrapFlags struct {
	print, apply              bool
	address, ca, tokenFile    string
	transit, auth, mount, dir string
	roots                     bool
	wrap                      time.Duration
	audience                  string
	accounts                  map[string]string
}

func vaultBootstrap() *cobra.Command {
	var b bootstrapFlags
	c := &cobra.Command{
		Use: "bootstrap --print | --apply --address URL --token-file FILE", Short: "Make the keys, policies and logins of every role in Vault", Args: noArgs,
		Long: `Shows, or carries out, what Vault needs: the Transit engine; a key for each role, which can be neither exported, nor backed up in
plaintext, nor deleted; a policy for each key, with which a token signs with that key, reads its public versions, and does nothing else; and
for each role a login of its own.
--print writes the commands for Vault's own command line. --apply does the same with a token that may do it, leaves alone what is there and
right, says what it did, and refuses a key that is not as it should be.`,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := b.options()
			if err != nil {
				return err
			}
			plan, err := bootstrap.New(o)
			if err != nil {
				return usageError{err}
			}
			if b.print {
				return plan.Print(c.OutOrStdout())
			}
			return b.carryOut(c, plan)
		},
	}
	f := c.Flags()
	f.BoolVar(&b.print, "print", false, "print the commands")
	f.BoolVar(&b.apply, "apply", false, "carry them out")
	f.StringVar(&b.address, "address", "", "https://host:port of Vault, for --apply")
	f.StringVar(&b.ca, "ca", "", "PEM certificates that sign Vault's, for --apply; the system's if empty")
	f.StringVar(&b.tokenFile, "token-file", "", "file with the token of an administrator, for --apply")
	f.StringVar(&b.transit, "transit", "transit", "mount of the Transit engine")
	f.BoolVar(&b.roots, "roots", false, "the registry's and the auditor's keys are kept in Vault too")
	f.StringVar(&b.auth, "auth", "approle", "how roles log in: approle or kubernetes")
	f.StringVar(&b.mount, "auth-mount", "", "mount of the auth method; its own name if empty")
	f.StringVar(&b.dir, "out", "secrets", "folder for role ids and wrapped secret ids, with approle")
	f.DurationVar(&b.wrap, "wrap-ttl", time.Hour, "for how long a wrapped secret id can be unwrapped, with approle")
	f.StringToStringVar(&b.accounts, "service-account", nil, "PROCESS=NAMESPACE/NAME, once for each process: trigger, control, serve, registry, auditor; with kubernetes")
	f.StringVar(&b.audience, "audience", "vault", "aud of the service accounts' tokens, with kubernetes")
	return c
}

// options returns the flags as the options of a plan.
func (b *bootstrapFlags) options() (bootstrap.Options, error) {
	o := bootstrap.Options{Transit: b.transit, Roots: b.roots}
	mount := b.mount
	mount = cmp.Or(mount, b.auth)
	switch {
	case b.print == b.apply:
		return o, usagef("mediator vault bootstrap needs one of --print and --apply")
	case b.apply && (b.address == "" || b.tokenFile == ""):
		return o, usagef("--apply needs --address and --token-file")
	case b.auth == "approle":
		o.AppRole = &bootstrap.AppRole{Mount: mount, Dir: b.dir, Wrap: b.wrap}
	case b.auth == "kubernetes":
		o.Kubernetes = &bootstrap.Kubernetes{Mount: mount, Audience: b.audience, Accounts: b.accounts}
	default:
		return o, usagef("--auth is approle or kubernetes")
	}
	return o, nil
}

func (b *bootstrapFlags) carryOut(c *cobra.Command, plan *bootstrap.Plan) error {
	token, err := files.ReadSecret(b.tokenFile, 1)
	if err != nil {
		return err
	}
	server, err := vault.NewServer(vault.Options{Address: b.address, CAFile: b.ca, Timeout: 30 * time.Second, Log: zap.NewNop(), Now: time.Now})
	if err != nil {
		return err
	}
	defer server.Close()
	return plan.Apply(c.Context(), server.Client(token), c.OutOrStdout())
}
