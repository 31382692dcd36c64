package start

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/launch"
)

type shellEnvironment struct {
	Set   map[string]string `json:"set"`
	Unset []string          `json:"unset"`
}

// Env returns the command that prints what a shell needs to send its programs through the proxy.
func Env() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "env", Short: "Print the variables that send a shell's programs through the proxy", Args: cli.NoArgs,
		Example: `  eval "$(mediator env)"
  mediator env --dir other --json`,
		Long: `Prints the variables that send the usual programs through the proxy and make them trust its CA, for a POSIX
shell, bash or zsh:

    eval "$(mediator env)"

The agent's user can run it: it reads no secrets. mediator run sets these variables by itself.`,
		RunE: func(c *cobra.Command, _ []string) error {
			listen, ca, err := config.LoadProxy(path)
			if err != nil {
				return err
			}
			ca, err = filepath.Abs(ca)
			if err != nil {
				return err
			}
			names, values := launch.Variables("http://"+cli.LocalAddress(listen), ca)
			return cli.PrintText(c, shellEnvironment{values, launch.Exempting}, func(w io.Writer) error {
				for _, name := range names {
					fmt.Fprintf(w, "export %s=%s\n", name, cli.ShellQuote(values[name]))
				}
				for _, name := range launch.Exempting {
					fmt.Fprintln(w, "unset", name)
				}
				return nil
			})
		},
	}
	cli.StackFileFlag(c, &path, devstack.SidecarFile)
	cli.JSONFlag(c)
	return c
}
