package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

func deploymentCommand() *cobra.Command {
	return group("deployment", "The strict deployment manifest",
		deploymentAudit(), deploymentHash(), deploymentPolicy(), deploymentEnvironment(), deploymentCertify(), deploymentVerify())
}

const oneManifest = "the path of one manifest"

func deploymentAudit() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "audit FILE", Short: "List every safeguard that the manifest lacks", Args: exactArgs(1, oneManifest),
		RunE: func(c *cobra.Command, args []string) error {
			m, err := config.ReadManifest(args[0])
			if err != nil {
				return err
			}
			issues := m.Audit()
			if asJSON {
				if err := printJSON(c.OutOrStdout(), append([]policy.Issue{}, issues...)); err != nil {
					return err
				}
			} else {
				for _, i := range issues {
					fmt.Fprintf(c.OutOrStdout(), "%s at %s: %s %s\n", i.Code, i.Path, i.Sentence, i.Mend)
				}
				fmt.Fprintf(c.OutOrStdout(), "%d issues\n", len(issues))
			}
			if len(issues) > 0 {
				return errRefused
			}
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// hashed is a hash that a command prints.
type hashed struct {
	Hash string `json:"hash"`
}

func deploymentHash() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "hash FILE", Short: "Print the manifest's hash", Args: exactArgs(1, oneManifest),
		RunE: func(c *cobra.Command, args []string) error {
			m, err := config.ReadManifest(args[0])
			if err != nil {
				return err
			}
			return printResult(c, asJSON, hashed{m.Hash()}, m.Hash())
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func deploymentCertify() *cobra.Command {
	var keyFile, issuer, audience, bundleFile string
	var asJSON bool
	var lifetime time.Duration
	c := &cobra.Command{
		Use: "certify FILE --auditor-key FILE --bundle FILE", Short: "Sign a manifest that audits clean into the trust bundle", Args: exactArgs(1, oneManifest),
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
			token, until, err := keyring.CertifyDeployment(c.Context(), auditor, m, signer.Options{Issuer: issuer, Audience: audience, Lifetime: lifetime, Now: time.Now})
			if err != nil {
				return err
			}
			forgotten, err := keyring.PutDeployment(bundleFile, token, m)
			if err != nil {
				return err
			}
			warnForgotten(c, bundleFile, forgotten)
			done := certifiedDeployment{DeploymentID: m.DeploymentID, Manifest: m.Hash(), Until: until}
			return printResult(c, asJSON, done, fmt.Sprintf("certified manifest %s into %s; it holds until %s", done.Manifest, bundleFile, until.Format(time.RFC3339)))
		},
	}
	jsonFlag(c, &asJSON)
	f := c.Flags()
	f.StringVar(&keyFile, "auditor-key", "", "the auditor's private JWK, or a .yaml file that names its key in Vault or in a token (required)")
	f.StringVar(&issuer, "issuer", "deployment-auditor", "iss of the certificate")
	f.StringVar(&audience, "audience", "", "aud of the certificate: the APIs that verify (required)")
	f.StringVar(&bundleFile, "bundle", "trust.json", "the trust bundle to write")
	f.DurationVar(&lifetime, "lifetime", 24*time.Hour, "how long the certificate is good for")
	required(c, "auditor-key")
	required(c, "audience")
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
		Use: "verify FILE --auditor FILE --registry FILE --bundle FILE", Short: "Verify the deployment certificate of a manifest", Args: exactArgs(1, oneManifest),
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
			return printResult(c, asJSON, holds, fmt.Sprintf("the certificate of deployment %s holds until %s", holds.DeploymentID, holds.Until.Format(time.RFC3339)))
		},
	}
	jsonFlag(c, &asJSON)
	trustFlags(c, &trust)
	return c
}

// trustFlags adds the flags of a command that verifies without a running process.
func trustFlags(c *cobra.Command, trust *config.Trust) {
	c.Flags().StringVar(&trust.Registry, "registry", devstack.RegistryFile, "the pinned public key of the key registry")
	c.Flags().StringVar(&trust.Auditor, "auditor", devstack.AuditorFile, "the pinned public key of the deployment auditor")
	c.Flags().StringVar(&trust.Bundle, "bundle", devstack.BundleFile, "the trust bundle")
}

func deploymentEnvironment() *cobra.Command {
	var path string
	var asJSON bool
	c := &cobra.Command{
		Use: "environment --config FILE", Short: "Print the hash of this binary with a sidecar's configuration, for requiredEnvironmentHash", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			raw, err := files.Read(path)
			if err != nil {
				return err
			}
			h, err := config.EnvironmentHash(raw)
			if err != nil {
				return err
			}
			return printResult(c, asJSON, hashed{h}, h)
		},
	}
	jsonFlag(c, &asJSON)
	configFlag(c, &path, "mediator.yaml")
	return c
}

func deploymentPolicy() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "policy FILE", Short: "Print the hash of a policy file, for requiredPolicyHash", Args: exactArgs(1, "the path of one policy file"),
		RunE: func(c *cobra.Command, args []string) error {
			rules, err := config.ReadRules(args[0])
			if err != nil {
				return err
			}
			return printResult(c, asJSON, hashed{rules.Hash()}, rules.Hash())
		},
	}
	jsonFlag(c, &asJSON)
	return c
}
