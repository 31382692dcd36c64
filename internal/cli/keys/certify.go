package keys

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/logs"
	"github.com/actionproof/mediator/signer"
)

// signing are the flags of commands that sign with a root key into the trust bundle.
type signing struct {
	keyFile, bundle string
	o               signer.Options
}

// add adds the flags for the key of a root: registry or auditor.
func (s *signing) add(c *cobra.Command, root, issuer string, lifetime time.Duration) {
	f, key := c.Flags(), root+"-key"
	f.StringVar(&s.keyFile, key, "",
		"the "+root+"'s private JWK, or a .yaml file that names its key in Vault or in a token (required)")
	f.StringVar(&s.o.Issuer, "issuer", issuer, "iss of what is signed")
	f.StringVar(&s.o.Audience, "audience", "", "aud of what is signed: the APIs that verify (required)")
	f.StringVar(&s.bundle, "bundle", "trust.json", "the trust bundle to write")
	f.DurationVar(&s.o.Lifetime, "lifetime", lifetime, "how long what is signed is good for")
	cli.Required(c, key)
	cli.Required(c, "audience")
	s.o.Now = time.Now
}

func (s *signing) addRegistry(c *cobra.Command) {
	s.add(c, "registry", "key-registry", 90*24*time.Hour)
}

// registry opens the key registry that the flags name. The caller closes its key.
func (s *signing) registry(c *cobra.Command) (*keyring.Registry, error) {
	key, err := keyring.OpenRootKey(c.Context(), s.keyFile, c.ErrOrStderr(), evidence.PurposeSignerCertificate)
	if err != nil {
		return nil, err
	}
	return keyring.NewRegistry(key, s.o, s.bundle), nil
}

func keysCertify() *cobra.Command {
	var from []string
	var r signing
	var notAgent, notUsers, watch bool
	c := &cobra.Command{
		Use:   "certify --registry-key FILE --from unix:PATH|file:PATH --bundle FILE",
		Short: "Certify the keys of running processes into the trust bundle", Args: cli.NoArgs,
		Example: `  mediator keys certify --registry-key registry.key.jwk --audience posting-api \
      --from unix:/run/mediator/trigger.sock --not-accessible-to-agent --not-accessible-to-users
  mediator keys certify --registry-key registry.key.jwk --audience posting-api --from file:keys.json`,
		Long: `Signs a custody certificate for each key version of the processes, or of the file (file:PATH)
that keys list --publication printed. The process says where a key is kept. You declare who can reach it: without
--not-accessible-to-agent and --not-accessible-to-users the certificate says that they can, and strict policy refuses
such a key. A declaration that a process observed to be false is not certified; one that it confirms is marked as
observed. A version of a key that several of the processes share is certified once all of them publish it
(roles_changed).

A certificate stays until half of its lifetime is over, unless its content changes; those of other processes' keys stay
until they expire. A version that the asked processes no longer publish is retired. The revocation list is signed again.

--watch waits for the processes, and goes on: it certifies whenever a key is rotated or retired, and before certificates
expire. It certifies no other role, issuer or key of a process (roles_changed).`,
		RunE: func(c *cobra.Command, _ []string) error {
			if watch {
				if err := processes(c, from); err != nil {
					return err
				}
			}
			registry, err := r.registry(c)
			if err != nil {
				return err
			}
			defer registry.Key.Close()
			say := keyring.Declaration{AccessibleToAgent: !notAgent, AccessibleToUsers: !notUsers}
			p, err := published(c, from, watch)
			if err != nil {
				return err
			}
			made, err := registry.Certify(c.Context(), p, say)
			if err == nil || made.Certified > 0 {
				warn(c, r.bundle, made)
				err = errors.Join(
					cli.Print(c, made, fmt.Sprintf("certified %d keys into %s; %d certificates stay, %d are left out",
						made.Certified, r.bundle, made.Kept, made.Dropped)), err)
			}
			if err != nil && !(watch && made.Certified+made.Disputed > 0) { // a watch goes on
				return err
			}
			if err := sayUnread(c, p.Roles); !watch {
				return err
			}
			log, err := logs.New(config.Log{}, "registry", c.ErrOrStderr())
			if err != nil {
				return err
			}
			registry.CertifyContinuously(c.Context(), from, p.RolesByEndpoint, say, log)
			return nil
		},
	}
	fromFlag(c, &from)
	r.addRegistry(c)
	c.Flags().BoolVar(&notAgent, "not-accessible-to-agent", false, "declare that the agent cannot reach the keys")
	c.Flags().BoolVar(&notUsers, "not-accessible-to-users", false, "declare that users cannot reach the keys")
	c.Flags().BoolVar(&watch, "watch", false, "go on, and certify anew whenever a key is rotated or retired")
	cli.JSONFlag(c)
	return c
}

// published reads the keys of processes. A watch waits for processes that do not listen yet.
func published(c *cobra.Command, from []string, watch bool) (keyring.Published, error) {
	for waiting := false; ; waiting = true {
		p, err := keyring.ReadPublished(c.Context(), from)
		if !watch || !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ECONNREFUSED) {
			return p, err
		}
		if !waiting {
			fmt.Fprintf(cli.Lines(c.ErrOrStderr()), "mediator: waiting: %v\n", err)
		}
		if every.Sleep(c.Context(), 250*time.Millisecond) != nil {
			return p, fmt.Errorf("stopped while waiting: %w", err)
		}
	}
}

func warn(c *cobra.Command, bundle string, done keyring.Edited) {
	w := c.ErrOrStderr()
	if done.Left > 0 {
		fmt.Fprintf(w, "%d certificates are not signed: run mediator keys certify again\n", done.Left)
	}
	if done.Waiting > 0 {
		fmt.Fprintf(w,
			"%d new versions get no certificate yet, because their keys have many certified versions: certify again "+
				"in 15 minutes, or retire versions\n", done.Waiting)
	}
	if done.Full > 0.5 {
		fmt.Fprintf(w, "%s is %.0f %% full: when it is full, no more keys are certified into it\n", bundle,
			100*done.Full)
	}
}
