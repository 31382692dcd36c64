package operate

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/daemon"
)

// reloaded is the result of the reload of one process.
type reloaded struct {
	Endpoint string `json:"endpoint"`
	daemon.ConfigStatus
}

// Reload returns the command that has processes take over their configuration.
func Reload() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "reload ENDPOINT ...", Short: "Have running processes take over their changed configuration, one after the other",
		Long: `Asks the process at each endpoint, unix:PATH, to read its configuration, manifest and policy again, as SIGHUP does, and says what came of it.
A configuration is taken over as a whole or refused as a whole; then the one before stays in force, and those that come after are not asked.
Name the control plane before the sidecars: a sidecar takes a manifest only once the control plane decides by it.`,
		Args: cli.SomeArgs("at least one endpoint"),
		RunE: func(c *cobra.Command, args []string) error {
			for _, at := range args {
				done := reloaded{Endpoint: at}
				if err := admin.Call(c.Context(), at, http.MethodPost, "/v1/reload", struct{}{}, &done.ConfigStatus); err != nil {
					return fmt.Errorf("%s: not reloaded: %w", at, err)
				}
				if err := cli.Print(c, asJSON, done, fmt.Sprintf("%s: reloaded: %s", at, done.ConfigStatus)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cli.JSONFlag(c, &asJSON)
	return c
}
