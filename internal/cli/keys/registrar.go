package keys

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/registrar"
	"github.com/actionproof/mediator/policy"
)

type signedRules struct {
	Serial    int64     `json:"serial"`
	Rules     int       `json:"rules"`
	Manifests []string  `json:"manifests"` // hashes
	Until     time.Time `json:"until"`
}

// SignRules returns the command that signs a registrar's rules.
func SignRules() *cobra.Command {
	var keyFile, out string
	var also []string
	var lifetime time.Duration
	c := &cobra.Command{
		Use: "sign FILE --auditor-key FILE", Short: "Sign rules, and the manifests that they name",
		Args: cli.ExactArgs(1, "the path of one file of rules, or - for a rendered chart on standard input"),
		Example: `  mediator registrar sign rules.yaml --auditor-key auditor.key.jwk --out rules.json
  mediator registrar sign rules.yaml --auditor-key auditor.key.jwk --also $(old/mediator deployment hash mediator.yaml)
  helm template mediator deploy/helm/mediator --values values.yaml --set signedRules=unsigned |
      mediator registrar sign - --auditor-key roots/auditor.yaml --out rules.json`,
		Long: `Signs the rules and certifies the manifest, for a registrar. A manifest whose pinned hashes are all zeros gets
those of policy.yaml and mediator.yaml beside the rules, with this program: sign with the program that the sidecars run.
With --also, the manifest also allows another program while sidecars are upgraded. With -, these files come from the
ConfigMap in the output of helm template.

A registrar refuses rules with a lower serial number than it has seen. Sign again before the rules end; a deployment
certificate ends earlier if the manifest says so.`,
		RunE: func(c *cobra.Command, args []string) error {
			read := func() (evidence.RegistrarRules, []*policy.Manifest, error) {
				if args[0] == "-" {
					return registrar.ReadRendered(c.InOrStdin(), time.Now(), also...)
				}
				return registrar.ReadSource(args[0], time.Now(), also...)
			}
			rules, manifests, err := read()
			if err != nil {
				return err
			}
			auditor, err := keyring.OpenRootKey(c.Context(), keyFile, c.ErrOrStderr(),
				evidence.PurposeDeploymentCertificate)
			if err != nil {
				return err
			}
			defer auditor.Close()
			signed, err := registrar.Sign(c.Context(), auditor, rules, manifests, lifetime, time.Now)
			if err != nil {
				return err
			}
			err = files.ReplaceWith(out, 0o644, func(to io.Writer) error { return cli.WriteJSON(to, signed) })
			if err != nil {
				return err
			}
			done := signedRules{Serial: rules.Serial, Rules: len(rules.Rules), Until: time.Now().Add(lifetime).UTC()}
			for _, m := range manifests {
				done.Manifests = append(done.Manifests, m.Hash())
			}
			return cli.Print(c, done, fmt.Sprintf("signed %d rules, serial number %d, into %s; they hold until %s",
				done.Rules, done.Serial, out, done.Until.Format(time.RFC3339)))
		},
	}
	f := c.Flags()
	f.StringVar(&keyFile, "auditor-key", "",
		"the auditor's private JWK, or a .yaml file that names its key in Vault or in a token (required)")
	f.StringVar(&out, "out", "rules.json", "the file to write")
	f.StringSliceVar(&also, "also", nil,
		"the environment hash of another program that may run, added to alsoEnvironmentHashes")
	f.DurationVar(&lifetime, "lifetime", 90*24*time.Hour, "how long the rules hold")
	cli.Required(c, "auditor-key")
	cli.JSONFlag(c)
	return c
}
