package keys

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/cli"
)

type revoked struct {
	Bundle  string                `json:"bundle"`
	Revoked []evidence.Revocation `json:"revoked"`
}

func keysRevoke() *cobra.Command {
	var r signing
	var keys, artifacts []string
	var reason string
	var keep time.Duration
	c := &cobra.Command{
		Use:   "revoke --registry-key FILE --bundle FILE --key KID --artifact ID --reason TEXT",
		Short: "Revoke keys and artifacts, in the trust bundle's revocation list", Args: cli.NoArgs,
		Example: `  mediator keys revoke --registry-key registry.key.jwk --audience posting-api --key runtime-key:v2 \
      --reason "the machine was taken over"`,
		Long: `Adds to the revocation list and signs it again. Name a key by its kid, or by its name for all of its
versions, and an artifact by its jti (posts show prints it). Every process and API that reads the bundle refuses what
the list names. Entries stay for --keep, which must cover the lifetime of what they revoke, and those of keys also
while the bundle has a certificate of the key. Without --key and --artifact the list is only signed again, for a
manifest that demands a fresh one.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(keys)+len(artifacts) > 0 && reason == "" {
				return cli.Usagef("say why, with --reason: it is shown with each refusal")
			}
			registry, err := r.registry(c)
			if err != nil {
				return err
			}
			defer registry.Key.Close()
			var add []evidence.Revocation
			for _, ids := range []struct {
				kind string
				list []string
			}{{evidence.RevokedKey, keys}, {evidence.RevokedArtifact, artifacts}} {
				for _, id := range ids.list {
					add = append(add,
						evidence.Revocation{Expires: time.Now().Add(keep).Unix(), ID: id, Kind: ids.kind,
							Reason: reason})
				}
			}
			entries, err := registry.Revoke(c.Context(), add, func(kid string) {
				fmt.Fprintf(cli.Lines(c.ErrOrStderr()),
					"no certificate in %s is for key %s: check how it is written, unless it is a root's or retired\n",
					r.bundle, kid)
			})
			if err != nil {
				return err
			}
			var text strings.Builder
			for _, e := range entries {
				fmt.Fprintf(cli.Lines(&text), "%s %s until %s: %s\n", e.Kind, e.ID, cli.Seconds(e.Expires), e.Reason)
			}
			fmt.Fprintf(&text, "%d entries in the revocation list of %s", len(entries), r.bundle)
			return cli.Print(c, revoked{r.bundle, entries}, text.String())
		},
	}
	r.addRegistry(c)
	cli.JSONFlag(c)
	f := c.Flags()
	f.StringArrayVar(&keys, "key", nil, "kid or key name to revoke; once for each")
	f.StringArrayVar(&artifacts, "artifact", nil, "jti of an artifact to revoke; once for each")
	f.StringVar(&reason, "reason", "", "why: one line, which is shown with each refusal")
	f.DurationVar(&keep, "keep", 400*24*time.Hour,
		"how long the entries stay in the list; no artifact is valid for longer than the default")
	return c
}
