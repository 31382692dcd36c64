package operate

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/process/daemon"
)

type reloaded struct {
	Endpoint string `json:"endpoint"`
	daemon.ConfigStatus
}

// Reload returns the command that makes processes reload their configuration.
func Reload() *cobra.Command {
	c := &cobra.Command{
		Use:   "reload [ENDPOINT ...]",
		Short: "Reload the changed configuration of running processes, one after the other", Example: `  mediator reload
  mediator reload unix:/run/mediator/control.sock unix:/run/mediator/admin.sock`,
		Long: `Asks the process at each endpoint to read its configuration, manifest and policy again, as SIGHUP does, and
prints the result. An endpoint is ` + cli.Endpoint + `. Without one, all processes of the current context or of a
mediator dev reload.
A process applies all of it or nothing, and the command stops at the first refusal. Name the control plane before the
sidecars: a sidecar takes a manifest only once the control plane decides by it.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && c.Flags().Changed("dir") {
				return cli.Usagef("%s takes endpoints, or else --dir", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				context, err := config.CurrentContext()
				dir := cli.Dir(c)
				switch {
				case err != nil:
					return err
				case context != nil && !c.Flags().Changed("dir"):
					args = context.All()
				case dir == "":
					return cli.Usagef("%s takes at least one endpoint, --dir or a context", c.CommandPath())
				default:
					args = []string{"unix:" + devstack.New(dir).Socket("dev")}
				}
			}
			for _, at := range args {
				done := reloaded{Endpoint: at}
				if err := admin.Call(c.Context(), at, http.MethodPost, "/v1/reload", struct{}{},
					&done.ConfigStatus); err != nil {
					return fmt.Errorf("%s: not reloaded: %w", at, err)
				}
				if err := cli.Print(c, done, fmt.Sprintf("%s: reloaded: %s", at, done.ConfigStatus)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cli.DirFlag(c)
	cli.JSONFlag(c)
	return c
}
