package keys

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/chain"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/keyring"
)

// Deployment returns the commands about the strict deployment manifest.
func Deployment() *cobra.Command {
	return cli.Group("deployment", "The strict deployment manifest", deploymentHash(), deploymentCertify())
}

const oneManifest = "the path of one manifest"

func deploymentHash() *cobra.Command {
	var canonical bool
	c := &cobra.Command{
		Use: "hash FILE", Short: "Print the hash of a manifest, or one that a manifest pins",
		Args: cli.ExactArgs(1, "a manifest, a policy file, or the configuration of a sidecar"),
		Example: `  mediator deployment hash manifest.yaml
  mediator deployment hash policy.yaml      # for requiredPolicyHash
  mediator deployment hash mediator.yaml    # for requiredEnvironmentHash`,
		Long: `Prints the hash by which manifests and records name a file. For a sidecar's configuration it is the hash of
the environment: this binary with that configuration. --canonical prints a manifest as the JSON that is hashed, for
verifiers without a YAML reader.`,
		RunE: func(c *cobra.Command, args []string) error {
			h, err := config.PinnedHash(args[0])
			if err != nil {
				return err
			}
			if canonical {
				m, err := deployed.ReadManifest(args[0])
				if err != nil {
					return err
				}
				text, err := m.Canonical()
				if err == nil {
					_, err = fmt.Fprint(c.OutOrStdout(), text)
				}
				return err
			}
			return cli.Print(c, map[string]string{"hash": h}, h)
		},
	}
	cli.JSONFlag(c)
	c.Flags().BoolVar(&canonical, "canonical", false,
		"print the manifest as canonical JSON, which APIs that verify read")
	return c
}

func deploymentCertify() *cobra.Command {
	var s signing
	var renew bool
	c := &cobra.Command{
		Use:   "certify FILE --auditor-key FILE --bundle FILE",
		Short: "Audit a manifest, and sign it into the trust bundle", Args: cli.ExactArgs(1, oneManifest),
		Example: `  mediator deployment certify manifest.yaml --auditor-key auditor.key.jwk --audience posting-api`,
		Long: `Signs the manifest with the auditor's key, and puts the certificate into the trust bundle. Sign again before
the certificate expires.

--renew signs only the manifest that the bundle's certificate is for, so that a timer certifies no change.`,
		RunE: func(c *cobra.Command, args []string) error {
			m, err := deployed.ReadManifest(args[0])
			if err != nil {
				return err
			}
			auditor, err := keyring.OpenRootKey(c.Context(), s.keyFile, c.ErrOrStderr(),
				evidence.PurposeDeploymentCertificate)
			if err != nil {
				return err
			}
			defer auditor.Close()
			if renew {
				if err := keyring.CheckRenewal(auditor, s.bundle, m); err != nil {
					return err
				}
			}
			token, until, err := keyring.CertifyDeployment(c.Context(), auditor, m, s.o)
			if err != nil {
				return err
			}
			if err := keyring.PutDeployment(s.bundle, token, m); err != nil {
				return err
			}
			done := chain.CertifiedDeployment{DeploymentID: m.DeploymentID, Manifest: m.Hash(), Until: until}
			return cli.Print(c, done, fmt.Sprintf("certified manifest %s into %s; it holds until %s", done.Manifest,
				s.bundle, until.Format(time.RFC3339)))
		},
	}
	cli.JSONFlag(c)
	s.add(c, "auditor", "deployment-auditor", 24*time.Hour)
	c.Flags().BoolVar(&renew, "renew", false, "refuse a manifest other than the certified one")
	return c
}
