package keys

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// Deployment returns the commands about the strict deployment manifest.
func Deployment() *cobra.Command {
	return cli.Group("deployment", "The strict deployment manifest",
		deploymentAudit(), deploymentHash(), deploymentPolicy(), deploymentEnvironment(), deploymentCertify(), deploymentVerify())
}

const oneManifest = "the path of one manifest"

func deploymentAudit() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "audit FILE", Short: "List every safeguard that the manifest lacks", Args: cli.ExactArgs(1, oneManifest),
		Example: `  mediator deployment audit manifest.yaml`,
		RunE: func(c *cobra.Command, args []string) error {
			m, err := config.ReadManifest(args[0])
			if err != nil {
				return err
			}
			issues := m.Audit()
			err = cli.PrintText(c, asJSON, append([]policy.Issue{}, issues...), func(w io.Writer) error {
				for _, i := range issues {
					fmt.Fprintf(w, "%s at %s: %s %s\n", i.Code, i.Path, i.Sentence, i.Mend)
				}
				_, err := fmt.Fprintf(w, "%d issues\n", len(issues))
				return err
			})
			if err == nil && len(issues) > 0 {
				return cli.ErrRefused
			}
			return err
		},
	}
	cli.JSONFlag(c, &asJSON)
	return c
}

// hashed is a hash that a command prints.
type hashed struct {
	Hash string `json:"hash"`
}

func deploymentHash() *cobra.Command {
	var asJSON, canonical bool
	c := &cobra.Command{
		Use: "hash FILE", Short: "Print the manifest's hash, or the JSON that it is the hash of", Args: cli.ExactArgs(1, oneManifest),
		Example: `  mediator deployment hash manifest.yaml
  mediator deployment hash manifest.yaml --canonical > manifest.json`,
		RunE: func(c *cobra.Command, args []string) error {
			m, err := config.ReadManifest(args[0])
			if err != nil {
				return err
			}
			if canonical {
				text, err := m.Canonical()
				if err == nil {
					_, err = fmt.Fprint(c.OutOrStdout(), text)
				}
				return err
			}
			return cli.Print(c, asJSON, hashed{m.Hash()}, m.Hash())
		},
	}
	cli.JSONFlag(c, &asJSON)
	c.Flags().BoolVar(&canonical, "canonical", false, "print the manifest as canonical JSON, which APIs that verify read")
	return c
}

func deploymentCertify() *cobra.Command {
	var keyFile, issuer, audience, bundleFile string
	var watch, asJSON bool
	var lifetime time.Duration
	c := &cobra.Command{
		Use: "certify FILE --auditor-key FILE --bundle FILE", Short: "Sign a manifest that audits clean into the trust bundle", Args: cli.ExactArgs(1, oneManifest),
		Example: `  mediator deployment certify manifest.yaml --auditor-key auditor.key.jwk --audience posting-api
  mediator deployment certify manifest.yaml --auditor-key auditor.key.jwk --audience posting-api --watch`,
		Long: `Signs the manifest with the auditor's key, and puts the certificate into the trust bundle.
With --watch it goes on, and signs the same manifest again whenever half of the certificate's time is over. It does not read the file again: a
manifest that was changed has to be certified by you. It renews nothing while the bundle has the certificate of another manifest
(deployment_mismatch), or one that was revoked (revoked).`,
		RunE: func(c *cobra.Command, args []string) error {
			m, err := config.ReadManifest(args[0])
			if err != nil {
				return err
			}
			auditor, err := keyring.OpenRootKey(c.Context(), keyFile, c.ErrOrStderr(), evidence.PurposeDeploymentCertificate)
			if err != nil {
				return err
			}
			defer auditor.Close()
			o := signer.Options{Issuer: issuer, Audience: audience, Lifetime: lifetime, Now: time.Now}
			token, until, err := keyring.CertifyDeployment(c.Context(), auditor, m, o)
			if err != nil {
				return err
			}
			if err := keyring.PutDeployment(bundleFile, token, m); err != nil {
				return err
			}
			done := certifiedDeployment{DeploymentID: m.DeploymentID, Manifest: m.Hash(), Until: until}
			err = cli.Print(c, asJSON, done, fmt.Sprintf("certified manifest %s into %s; it holds until %s", done.Manifest, bundleFile, until.Format(time.RFC3339)))
			if err != nil || !watch {
				return err
			}
			log, err := daemon.NewLogger(config.Log{}, "auditor", c.ErrOrStderr())
			if err != nil {
				return err
			}
			keyring.RenewContinuously(c.Context(), auditor, m, o, bundleFile, log)
			return nil
		},
	}
	cli.JSONFlag(c, &asJSON)
	c.Flags().BoolVar(&watch, "watch", false, "go on, and renew the certificate before it ends")
	f := c.Flags()
	f.StringVar(&keyFile, "auditor-key", "", "the auditor's private JWK, or a .yaml file that names its key in Vault or in a token (required)")
	f.StringVar(&issuer, "issuer", "deployment-auditor", "iss of the certificate")
	f.StringVar(&audience, "audience", "", "aud of the certificate: the APIs that verify (required)")
	f.StringVar(&bundleFile, "bundle", "trust.json", "the trust bundle to write")
	f.DurationVar(&lifetime, "lifetime", 24*time.Hour, "how long the certificate is good for")
	cli.Required(c, "auditor-key")
	cli.Required(c, "audience")
	return c
}

// certifiedDeployment is the result of a command about a deployment certificate.
type certifiedDeployment struct {
	DeploymentID string    `json:"deploymentId"`
	Manifest     string    `json:"manifest"`
	Until        time.Time `json:"until"`
}

func deploymentVerify() *cobra.Command {
	var trust config.Trust
	var asJSON bool
	c := &cobra.Command{
		Use: "verify FILE --auditor FILE --registry FILE --bundle FILE", Short: "Verify the deployment certificate of a manifest", Args: cli.ExactArgs(1, oneManifest),
		Example: `  mediator deployment verify manifest.yaml
  mediator deployment verify .mediator/manifest.yaml --dir .mediator`,
		RunE: func(c *cobra.Command, args []string) error {
			_, strict, err := config.ReadAuditedManifest(args[0])
			if err != nil {
				return err
			}
			v, b, err := config.OfflineVerifier(trust, strict, time.Now)
			if err != nil {
				return err
			}
			cert, err := policy.VerifyCertificate(v, b.DeploymentCertificate, strict)
			if err != nil {
				return err
			}
			holds := certifiedDeployment{cert.DeploymentID, cert.ManifestHash, strict.Until(cert)}
			return cli.Print(c, asJSON, holds, fmt.Sprintf("the certificate of deployment %s holds until %s", holds.DeploymentID, holds.Until.Format(time.RFC3339)))
		},
	}
	cli.JSONFlag(c, &asJSON)
	cli.TrustFlags(c, &trust)
	return c
}

func deploymentEnvironment() *cobra.Command {
	var path string
	var asJSON bool
	c := &cobra.Command{
		Use: "environment --config FILE", Short: "Print the hash of this binary with a sidecar's configuration, for requiredEnvironmentHash", Args: cli.NoArgs,
		Example: `  mediator deployment environment --config mediator.yaml`,
		RunE: func(c *cobra.Command, _ []string) error {
			raw, err := files.Read(path)
			if err != nil {
				return err
			}
			h, err := config.EnvironmentHash(raw)
			if err != nil {
				return err
			}
			return cli.Print(c, asJSON, hashed{h}, h)
		},
	}
	cli.JSONFlag(c, &asJSON)
	cli.ConfigFlag(c, &path, "mediator.yaml")
	return c
}

func deploymentPolicy() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "policy FILE", Short: "Print the hash of a policy file, for requiredPolicyHash", Args: cli.ExactArgs(1, "the path of one policy file"),
		Example: `  mediator deployment policy policy.yaml`,
		RunE: func(c *cobra.Command, args []string) error {
			rules, err := config.ReadRules(args[0])
			if err != nil {
				return err
			}
			return cli.Print(c, asJSON, hashed{rules.Hash()}, rules.Hash())
		},
	}
	cli.JSONFlag(c, &asJSON)
	return c
}
