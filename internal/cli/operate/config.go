package operate

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/policy"
)

// Config returns the commands about configuration files.
func Config() *cobra.Command {
	return cli.Group("config", "Configuration files", configCheck(), configSchema())
}

type checkedFile struct {
	File     string           `json:"file"`
	Kind     string           `json:"kind,omitempty"`
	Correct  bool             `json:"correct"`
	Error    string           `json:"error,omitempty"`
	Issues   []policy.Issue   `json:"issues,omitempty"`   // safeguards that a manifest lacks
	Warnings []config.Warning `json:"warnings,omitempty"` // what the process says in its log, and goes on
}

func configCheck() *cobra.Command {
	var noSecrets bool
	c := &cobra.Command{
		Use: "check FILE ...", Short: "Check configuration, policy and manifest files as the processes would read them",
		Example: `  mediator config check mediator.yaml policy.yaml manifest.yaml`,
		Long:    `Prints each mistake with its line, and for a manifest each safeguard that it lacks.`,
		Args:    cli.SomeArgs("at least one file"),
		RunE: func(c *cobra.Command, args []string) error {
			failed, all, said := false, []checkedFile{}, cli.Plain(c.ErrOrStderr())
			for _, path := range args {
				checked, err := config.CheckFile(path, !noSecrets)
				file := checkedFile{File: path, Kind: checked.Kind, Correct: err == nil, Issues: checked.Issues,
					Warnings: checked.Warnings}
				if checked.Sidecar != nil {
					file.Warnings = append(file.Warnings, unused(c.Context(), checked.Sidecar, time.Now())...)
				}
				for _, w := range file.Warnings {
					fmt.Fprintf(said, "%s: warning: %v\n", path, w)
				}
				for _, i := range file.Issues {
					fmt.Fprintf(said, "%s: %s at %s: %s %s\n", path, i.Code, i.Path, i.Sentence, i.Mend)
				}
				switch {
				case err != nil:
					failed, file.Error = true, err.Error()
					fmt.Fprintln(said, err)
				case !cli.AsJSON(c):
					fmt.Fprintf(c.OutOrStdout(), "%s: a correct %s\n", path, file.Kind)
				}
				all = append(all, file)
			}
			if cli.AsJSON(c) {
				if err := cli.WriteJSON(c.OutOrStdout(), all); err != nil {
					return err
				}
			}
			if failed {
				return cli.ErrRefused
			}
			return nil
		},
	}
	cli.JSONFlag(c)
	c.Flags().BoolVar(&noSecrets, "no-secrets", false,
		"read no file of a secret: for a machine that has none, such as CI's")
	return c
}

func configSchema() *cobra.Command {
	return &cobra.Command{
		Use:     "schema " + strings.Join(config.SchemaNames(), "|"),
		Short:   "Print the JSON Schema of a configuration file",
		Args:    cli.ExactArgs(1, "one of "+strings.Join(config.SchemaNames(), ", ")),
		Example: `  mediator config schema serve > mediator.schema.json`,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := config.Schema(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			return cli.WriteJSON(c.OutOrStdout(), s)
		},
	}
}
