package cli

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
)

// JSONFlag adds --json, which makes a command print its result as JSON.
func JSONFlag(c *cobra.Command, asJSON *bool) {
	c.Flags().BoolVar(asJSON, "json", false, "print JSON")
}

// AdminVariable is the environment variable with the sidecar's admin endpoint, for commands without --admin and --dir.
const AdminVariable = "MEDIATOR_ADMIN"

// AdminFlag adds --admin, the sidecar's admin endpoint, and --dir.
func AdminFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "admin", "unix:/run/mediator/admin.sock", "the sidecar's admin endpoint, unix:PATH; overrides "+AdminVariable)
	Check(c, func(c *cobra.Command) error {
		if named := os.Getenv(AdminVariable); named != "" && !c.Flags().Changed("admin") {
			*at = named
		}
		return nil
	})
	FromDir(c, "admin", func(dir string) string { return devstack.New(dir).Admin() })
}

// FromDir adds --dir, the folder of a mediator dev, unless the command has it. If --dir is given and the named flag is
// not, the flag gets its value from the folder.
func FromDir(c *cobra.Command, flag string, value func(dir string) string) {
	AllFromDir(c, flag, func(dir string) []string { return []string{value(dir)} })
}

// AllFromDir is FromDir for a flag that can be repeated.
func AllFromDir(c *cobra.Command, flag string, values func(dir string) []string) {
	if c.Flags().Lookup("dir") == nil {
		c.Flags().String("dir", "", "the folder of a mediator dev: endpoints and files that no flag names are the ones in it")
	}
	Check(c, func(c *cobra.Command) error {
		dir := c.Flags().Lookup("dir").Value.String()
		f := c.Flags().Lookup(flag)
		if dir == "" || f.Changed {
			return nil
		}
		for _, value := range values(dir) {
			if err := f.Value.Set(value); err != nil {
				return err
			}
		}
		return nil
	})
}

// FileFromDir is FromDir for a flag that names a file in the folder.
func FileFromDir(c *cobra.Command, flag, name string) {
	FromDir(c, flag, func(dir string) string { return filepath.Join(dir, name) })
}

// StackFileFlag adds --config, a configuration file, and --dir, the folder of a mediator dev that has the file under
// this name. Without both it is the file in .mediator.
func StackFileFlag(c *cobra.Command, path *string, name string) {
	c.Flags().StringVar(path, "config", filepath.Join(devstack.DefaultFolder, name), "the configuration file")
	FileFromDir(c, "config", name)
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
	for flag, name := range map[string]string{"registry": devstack.RegistryFile, "auditor": devstack.AuditorFile, "bundle": devstack.BundleFile} {
		FileFromDir(c, flag, name)
	}
}

// ReadInput reads a file that is an argument of a command, or standard input for "-".
func ReadInput(c *cobra.Command, path string) ([]byte, error) {
	if path == "-" {
		return files.ReadAll(c.InOrStdin(), "standard input", files.MaxInput)
	}
	return files.ReadUpTo(path, files.MaxInput)
}
