package operate

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/preset"
	"github.com/actionproof/mediator/internal/process/daemon"
)

// Preset returns the commands about ready rules.
func Preset() *cobra.Command {
	return cli.Group("preset", "Ready rules for known agents and APIs", presetShow(), presetAdd())
}

func presetShow() *cobra.Command {
	return &cobra.Command{
		Use: "show [NAME]", Aliases: []string{"list"}, Short: "List the presets, or print the rules of one",
		Example: "  mediator preset list\n  mediator preset show claude-code",
		RunE: func(c *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				grid := cli.Table(c.OutOrStdout(), "PRESET", "FOR")
				for _, p := range preset.All() {
					grid.Row(p.Name, p.About)
				}
				return grid.Flush()
			case 1:
				p, err := preset.Find(args[0])
				if err != nil {
					return cli.Usage(err)
				}
				_, err = io.WriteString(c.OutOrStdout(), p.Text)
				return err
			}
			return cli.Usagef("%s takes one name at most", c.CommandPath())
		},
	}
}

func presetAdd() *cobra.Command {
	var path string
	var dry bool
	c := &cobra.Command{
		Use: "add NAME ...", Short: "Add presets to a sidecar's rules, and reload a running mediator dev",
		Example: `  mediator preset add claude-code github
  mediator preset add slack --config mediator.yaml --dry-run`,
		Long: `Adds the rules of presets to the sidecar's configuration, shows the difference, checks the result, and reloads
the mediator dev that runs with it. It changes no line of the file: a rule for the same calls gets only the keys that it
lacks. Refused, it leaves the file as it was.

A credential whose file is not there becomes a comment: the agent's own then passes. Put the secret into that file and
remove the #.`,
		Args: cli.SomeArgs("at least one preset"),
		RunE: func(c *cobra.Command, args []string) error {
			before, err := files.Read(path)
			if err != nil {
				return err
			}
			merged := before
			for _, name := range args {
				p, err := preset.Find(name)
				if err != nil {
					return cli.Usage(err)
				}
				merged, err = p.Merge(merged, func(secret string) bool {
					_, err := os.Stat(filepath.Join(filepath.Dir(path), secret))
					return err == nil
				})
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
			}
			if bytes.Equal(before, merged) {
				fmt.Fprintf(c.ErrOrStderr(), "%s has these rules already\n", path)
				return nil
			}
			if _, err := cli.Plain(c.OutOrStdout()).Write(diff.Diff(path, before, path+" (new)", merged)); err != nil {
				return err
			}
			if err := checkMerged(path, merged); err != nil || dry {
				return err
			}
			return putRules(c, path, before, merged)
		},
	}
	cli.StackFileFlag(c, &path, devstack.SidecarFile)
	c.Flags().BoolVar(&dry, "dry-run", false, "show and check the difference only")
	return c
}

// checkMerged checks a configuration in the folder that its relative paths start at.
func checkMerged(path string, merged []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".preset-*.yaml")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(merged); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if _, _, err = config.CheckFile(f.Name(), false); err != nil {
		return fmt.Errorf("not added: %w", err)
	}
	return nil
}

// putRules replaces the file and reloads. If the reload is refused, it puts the file back.
func putRules(c *cobra.Command, path string, before, merged []byte) error {
	was, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := files.Replace(path, merged, was.Mode().Perm()); err != nil {
		return err
	}
	socket := devstack.New(filepath.Dir(path)).Socket("dev")
	if _, err := os.Stat(socket); err != nil {
		fmt.Fprintln(c.ErrOrStderr(), "added; mediator reload applies it to processes that run")
		return nil
	}
	var now daemon.ConfigStatus
	if err := admin.Call(c.Context(), "unix:"+socket, http.MethodPost, "/v1/reload", struct{}{}, &now); err != nil {
		if back := files.Replace(path, before, was.Mode().Perm()); back != nil {
			return fmt.Errorf("not reloaded: %w; and the file could not be put back: %w", err, back)
		}
		return fmt.Errorf("not reloaded, and the file is as before: %w", err)
	}
	fmt.Fprintf(c.ErrOrStderr(), "added and reloaded: %s\n", now)
	return nil
}
