package start

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
)

// Dev returns the command that runs all roles on embedded defaults.
func Dev() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "dev", Short: "Run all roles on embedded defaults, in one command", Args: cli.NoArgs,
		Example: `  mediator dev
  mediator dev --dir other`,
		Long: `Starts the sidecar, the trigger service and the control plane on the configuration files in --dir, which are written there at the
first start and are yours to edit: mediator reload has them taken over while everything runs. Signing keys live in the processes' memories alone, and end with them.
What outlives them is in --dir: the record; the interception CA with its key (ca), so clients go on trusting it; and the public files of each
earlier start (earlier), so its records still verify. Ctrl-C ends everything.`,
		RunE: func(c *cobra.Command, _ []string) error { return dev(c.Context(), dir, c.OutOrStdout()) },
	}
	c.Flags().StringVar(&dir, "dir", devstack.DefaultFolder, "folder of the configuration, the state and the logs")
	return c
}

func dev(ctx context.Context, dir string, stdout io.Writer) error {
	began := time.Now()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	release, err := devstack.Hold(dir)
	if err != nil {
		return err
	}
	defer release() // last, when nothing runs any more
	if err := devstack.Prepare(dir, configs.Dev); err != nil {
		return err
	}
	if _, err := config.LoadSidecar(filepath.Join(dir, devstack.SidecarFile)); err != nil {
		return err
	}
	s, err := devstack.Start(ctx, dir)
	if err != nil {
		return err
	}
	defer s.Stop()
	fmt.Fprintf(stdout, "ready in %.1f s; configuration, state and logs are in %s\n\n", time.Since(began).Seconds(), dir)
	fmt.Fprintf(stdout, `In the agent's shell:        eval "$(mediator env --dir %[1]s)"
The agent waits for events:  curl 'http://mediator.internal/v1/event/next?wait=30s'
Deliver an event, signed:    mediator events send github FILE --dir %[1]s
The record:                  mediator posts list --dir %[1]s
After a change of a file:    mediator reload --dir %[1]s
`, cli.ShellQuote(dir))
	return s.Serve(ctx)
}
