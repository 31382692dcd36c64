package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
)

// JSONFlag adds --json, which makes [Print] print JSON.
func JSONFlag(c *cobra.Command) { c.Flags().Bool("json", false, "print JSON") }

// AdminVariable is the environment variable with the sidecar's admin endpoint, for commands without --admin and --dir.
const AdminVariable = "MEDIATOR_ADMIN"

// Endpoint is the form of an endpoint on the command line.
const Endpoint = "unix:PATH or https://HOST:PORT,FILE"

// AdminFlag adds --admin, the sidecar's admin endpoint, and --dir.
func AdminFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "admin", "unix:/run/mediator/admin.sock",
		"the sidecar's admin endpoint, "+Endpoint+"; overrides "+AdminVariable)
	DefaultEndpoint(c, "admin", "serve", func(of *config.Context) string { return of.Admin })
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
		devstack.DefaultFolder+" here or above, if it is there and no flag names any")
	c.Flags().Lookup("dir").Annotations = make(map[string][]string)
}

// Default adds --dir, and gives the named flag its values if the command line does not: those of the user's current
// context, unless the command line has --dir, or else those of the folder. fromContext is nil if contexts have none.
func Default(c *cobra.Command, flag string, fromDir func(dir string) []string,
	fromContext func(*config.Context) []string) {
	DirFlag(c)
	f := c.Flags().Lookup("dir")
	f.Annotations[dirAnnotation] = append(f.Annotations[dirAnnotation], flag)
	Check(c, func(c *cobra.Command) error {
		f, values := c.Flags().Lookup(flag), []string(nil)
		if f.Changed {
			return nil
		}
		if dir := Dir(c); dir != "" {
			values = fromDir(dir)
		}
		if fromContext != nil && !c.Flags().Changed("dir") {
			context, err := config.CurrentContext()
			if err != nil {
				return err
			}
			if context != nil {
				if values = fromContext(context); len(values) == 0 {
					return Usagef("the context %s does not name the process: give --%s", context.Name, flag)
				}
			}
		}
		if len(values) == 0 {
			return nil
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			return list.Replace(values)
		}
		return f.Value.Set(values[0])
	})
}

// Dir returns the folder that a command takes its defaults from: --dir, or .mediator if that is found. Once a flag
// names an endpoint or a file itself, .mediator is not taken: it may belong to another stack.
func Dir(c *cobra.Command) string {
	f := c.Flags().Lookup("dir")
	if f.Changed || slices.ContainsFunc(f.Annotations[dirAnnotation], c.Flags().Changed) {
		return f.Value.String()
	}
	return found()
}

// found returns the .mediator of the working folder, or of the nearest folder above it. Above, only a folder of this
// user or of root counts: another user can make one in /tmp, for example.
func found() string {
	if isThere(devstack.DefaultFolder) {
		return devstack.DefaultFolder
	}
	at, err := os.Getwd()
	for err == nil && at != filepath.Dir(at) {
		at = filepath.Dir(at)
		path := filepath.Join(at, devstack.DefaultFolder)
		var s unix.Stat_t
		if unix.Lstat(path, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFDIR &&
			(s.Uid == 0 || int(s.Uid) == os.Geteuid()) {
			return path
		}
	}
	return ""
}

// DefaultEndpoint is [Default] for a flag that names the endpoint of a process.
func DefaultEndpoint(c *cobra.Command, flag, process string, in func(*config.Context) string) {
	Default(c, flag, func(dir string) []string { return []string{"unix:" + devstack.New(dir).Socket(process)} },
		func(of *config.Context) []string { return of.Named(in(of)) })
}

// FileFromDir is [Default] for a flag that names a file in the folder.
func FileFromDir(c *cobra.Command, flag, name string) {
	Default(c, flag, func(dir string) []string { return []string{filepath.Join(dir, name)} }, nil)
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

// OpenInput opens a file that is an argument of a command, or standard input for "-".
func OpenInput(c *cobra.Command, path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(c.InOrStdin()), nil
	}
	return os.Open(path)
}

// ReadInput reads what [OpenInput] opens.
func ReadInput(c *cobra.Command, path string) ([]byte, error) {
	f, err := OpenInput(c, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if path == "-" {
		path = "standard input"
	}
	return files.ReadAll(f, path, files.MaxInput)
}
