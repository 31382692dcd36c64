package operate

import (
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/preset"
)

// Preset returns the commands about ready rules.
func Preset() *cobra.Command {
	return cli.Group("preset", "Ready rules for known agents and APIs", presetShow(), presetAdd())
}

func presetShow() *cobra.Command {
	c := &cobra.Command{
		Use: "show [NAME]", Aliases: []string{"list"}, Short: "List the presets, or print the rules of one",
		Example: "  mediator preset list\n  mediator preset show claude-code", Args: cli.OneArgAtMost("name"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.PrintTable(c, preset.All(), func(p preset.Preset) []any { return []any{p.Name, p.About} },
					"PRESET", "FOR")
			}
			p, err := preset.Find(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			return cli.PrintText(c, p, func(w io.Writer) error {
				_, err := io.WriteString(w, p.Text)
				return err
			})
		},
	}
	cli.JSONFlag(c)
	return c
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
lacks.

A credential whose file is not there becomes a comment: put the secret into that file and remove the #. Until then an
egress rule's calls pass with the agent's own credential, and an action's with none.`,
		Args: cli.SomeArgs("at least one preset"),
		RunE: func(c *cobra.Command, args []string) error {
			has := func(secret string) bool {
				_, err := os.Stat(filepath.Join(filepath.Dir(path), secret))
				return err == nil
			}
			return cli.ChangeRules(c, path, "", func(file []byte) ([]byte, error) {
				for _, name := range args {
					p, err := preset.Find(name)
					if err != nil {
						return nil, cli.Usage(err)
					}
					if file, err = p.Merge(file, has); err != nil {
						return nil, err
					}
				}
				return file, nil
			}, func() (bool, error) { return !dry, nil })
		},
	}
	cli.StackFileFlag(c, &path, devstack.SidecarFile)
	c.Flags().BoolVar(&dry, "dry-run", false, "only show the difference")
	return c
}
