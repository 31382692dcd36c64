package cli

import (
	"os"
	"path/filepath"
	"slices"

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

// Endpoint is the form of an endpoint on the command line.
const Endpoint = "unix:PATH or tcp:HOST:PORT,FILE"

// AdminFlag adds --admin, the sidecar's admin endpoint, and --dir.
func AdminFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "admin", "unix:/run/mediator/admin.sock",
		"the sidecar's admin endpoint, "+Endpoint+"; overrides "+AdminVariable)
	FromDir(c, "admin", func(dir string) []string { return []string{devstack.New(dir).Admin()} })
	Check(c, func(c *cobra.Command) error {
		if named := os.Getenv(AdminVariable); named != "" && !c.Flags().Changed("admin") && !c.Flags().Changed("dir") {
			*at = named
		}
		return nil
	})
}

// dirAnnotation lists the flags that --dir gives values to.
const dirAnnotation = "from-dir"

// DirFlag adds --dir, the folder of a mediator dev, unless the command has it.
func DirFlag(c *cobra.Command) {
	if c.Flags().Lookup("dir") != nil {
		return
	}
	c.Flags().String("dir", "", "the folder of a mediator dev, for endpoints and files that no flag names; "+
		devstack.DefaultFolder+", if that is there and no flag names any")
	c.Flags().Lookup("dir").Annotations = make(map[string][]string)
}

// FromDir adds --dir, the folder that supplies the named flag's values if the flag is left out.
func FromDir(c *cobra.Command, flag string, values func(dir string) []string) {
	DirFlag(c)
	f := c.Flags().Lookup("dir")
	f.Annotations[dirAnnotation] = append(f.Annotations[dirAnnotation], flag)
	Check(c, func(c *cobra.Command) error {
		dir, f := Dir(c), c.Flags().Lookup(flag)
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

// Dir returns the folder that a command takes its defaults from: --dir, or .mediator if that is there. Once a flag
// names an endpoint or a file itself, .mediator is not taken: it may belong to another stack.
func Dir(c *cobra.Command) string {
	f := c.Flags().Lookup("dir")
	if f.Changed || slices.ContainsFunc(f.Annotations[dirAnnotation], c.Flags().Changed) {
		return f.Value.String()
	}
	if _, err := os.Stat(devstack.DefaultFolder); err != nil {
		return ""
	}
	return devstack.DefaultFolder
}

// FileFromDir is [FromDir] for a flag that names a file in the folder.
func FileFromDir(c *cobra.Command, flag, name string) {
	FromDir(c, flag, func(dir string) []string { return []string{filepath.Join(dir, name)} })
}

// StackFileFlag adds --config, a configuration file, and --dir, the folder of a mediator dev that has the file under
// this name. Without both it is the file in .mediator.
func StackFileFlag(c *cobra.Command, path *string, name string) {
	c.Flags().StringVar(path, "config", filepath.Join(devstack.DefaultFolder, name), "the configuration file")
	FileFromDir(c, "config", name)
}

// ConfigFlag adds --config, which the command requires. name is the example of the file in configs.
func ConfigFlag(c *cobra.Command, path *string, name string) {
	c.Flags().StringVar(path, "config", "", "the configuration file, as configs/"+name+" shows it (required)")
	Required(c, "config")
}

// TrustFlags adds the flags that name the public keys and certificates to verify by.
func TrustFlags(c *cobra.Command, trust *config.Trust) {
	for _, f := range []struct {
		to                *string
		flag, name, about string
	}{
		{&trust.Registry, "registry", devstack.RegistryFile, "the pinned public key of the key registry"},
		{&trust.Auditor, "auditor", devstack.AuditorFile, "the pinned public key of the deployment auditor"},
		{&trust.Bundle, "bundle", devstack.BundleFile, "the trust bundle"},
	} {
		c.Flags().StringVar(f.to, f.flag, f.name, f.about)
		FileFromDir(c, f.flag, f.name)
	}
}

// ReadInput reads a file that is an argument of a command, or standard input for "-".
func ReadInput(c *cobra.Command, path string) ([]byte, error) {
	if path == "-" {
		return files.ReadAll(c.InOrStdin(), "standard input", files.MaxInput)
	}
	return files.ReadUpTo(path, files.MaxInput)
}
