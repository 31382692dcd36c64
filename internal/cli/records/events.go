package records

import (
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/trigger"
)

// Events returns the commands about the events that the trigger service keeps.
func Events() *cobra.Command {
	return cli.Group("events", "Events that start agents", eventsList(), eventsSend())
}

func triggerFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "trigger", "unix:/run/mediator/trigger.sock",
		"the trigger service's internal endpoint, "+cli.Endpoint)
	cli.DefaultEndpoint(c, "trigger", "trigger", func(of *config.Context) string { return of.Trigger })
}

func eventsList() *cobra.Command {
	var at string
	c := &cobra.Command{
		Use: "list", Short: "List the newest 100 of the events that the trigger service keeps", Args: cli.NoArgs,
		Example: `  mediator events list`,
		RunE: func(c *cobra.Command, _ []string) error {
			var events []trigger.Event
			if err := admin.Get(c.Context(), at, "/v1/events", &events); err != nil {
				return err
			}
			return cli.PrintTable(c, events, func(e trigger.Event) []any {
				return []any{cli.Time(e.ReceivedAt), e.ID, e.State, e.Kind, e.Source, e.Method, e.EvidenceID}
			}, "RECEIVED", "ID", "STATE", "KIND", "SOURCE", "METHOD", "EVIDENCE")
		},
	}
	triggerFlag(c, &at)
	cli.JSONFlag(c)
	return c
}
