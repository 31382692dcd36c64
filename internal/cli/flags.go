package cli

import (
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
)

// JSONFlag adds --json, which makes a command print its result as JSON.
func JSONFlag(c *cobra.Command, asJSON *bool) {
	c.Flags().BoolVar(asJSON, "json", false, "print JSON")
}

// AdminFlag adds --admin, the sidecar's admin endpoint.
func AdminFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "admin", "unix:/run/mediator/admin.sock", "the sidecar's admin endpoint, unix:PATH")
}

// ConfigFlag adds --config, which a command demands. name is the file in configs that shows an example.
func ConfigFlag(c *cobra.Command, path *string, name string) {
	c.Flags().StringVar(path, "config", "", "the configuration file, as configs/"+name+" shows it (required)")
	Required(c, "config")
}

// TrustFlags adds the flags that name what a command verifies by without a running process.
func TrustFlags(c *cobra.Command, trust *config.Trust) {
	c.Flags().StringVar(&trust.Registry, "registry", devstack.RegistryFile, "the pinned public key of the key registry")
	c.Flags().StringVar(&trust.Auditor, "auditor", devstack.AuditorFile, "the pinned public key of the deployment auditor")
	c.Flags().StringVar(&trust.Bundle, "bundle", devstack.BundleFile, "the trust bundle")
}

// ReadInput reads a file that is an argument of a command, or standard input for "-".
func ReadInput(c *cobra.Command, path string) ([]byte, error) {
	if path == "-" {
		return files.ReadAll(c.InOrStdin(), "standard input", files.MaxInput)
	}
	return files.ReadUpTo(path, files.MaxInput)
}
