package records

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/trigger"
)

// Events returns the commands about the events that the trigger service keeps.
func Events() *cobra.Command {
	return cli.Group("events", "Events that start agents", eventsList(), eventsReport(), eventsSend())
}

// triggerFlag adds --trigger, the trigger service's internal endpoint, and --dir.
func triggerFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "trigger", "unix:/run/mediator/trigger.sock", "the trigger service's internal endpoint, unix:PATH")
	cli.FromDir(c, "trigger", func(dir string) string { return "unix:" + devstack.New(dir).Socket("trigger") })
}

func eventsList() *cobra.Command {
	var at string
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the newest 100 of the events that the trigger service keeps", Args: cli.NoArgs,
		Example: `  mediator events list --dir .mediator`,
		RunE: func(c *cobra.Command, _ []string) error {
			var events []trigger.Event
			if err := admin.Get(c.Context(), at, "/v1/events", &events); err != nil {
				return err
			}
			return cli.PrintText(c, asJSON, events, func(w io.Writer) error {
				t := cli.Table(w, "RECEIVED", "ID", "STATE", "KIND", "SOURCE", "METHOD", "EVIDENCE")
				for _, e := range events {
					t.Row(cli.Time(e.ReceivedAt), e.ID, e.State, e.Kind, e.Source, e.Method, e.EvidenceID)
				}
				return t.Flush()
			})
		},
	}
	triggerFlag(c, &at)
	cli.JSONFlag(c, &asJSON)
	return c
}

func eventsReport() *cobra.Command {
	var at, payload string
	var asJSON bool
	var report struct {
		Kind    string          `json:"kind"`
		Method  string          `json:"method"`
		Source  string          `json:"source"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}
	c := &cobra.Command{
		Use: "report", Short: "Put an event on record that nobody verified; it is seen, and stands behind no post", Args: cli.NoArgs,
		Example: `  mediator events report --dir .mediator --kind human_request`,
		RunE: func(c *cobra.Command, _ []string) error {
			if payload != "" {
				raw, err := cli.ReadInput(c, payload)
				if err != nil {
					return err
				}
				if !json.Valid(raw) {
					return fmt.Errorf("the payload %s is not JSON", payload)
				}
				report.Payload = raw
			}
			var kept struct {
				EventID string `json:"eventId"`
			}
			if err := admin.Call(c.Context(), at, http.MethodPost, "/v1/events", report, &kept); err != nil {
				return err
			}
			return cli.Print(c, asJSON, kept, kept.EventID)
		},
	}
	c.Flags().StringVar(&report.Kind, "kind", evidence.TriggerHumanRequest, "human_request or unknown")
	c.Flags().StringVar(&report.Method, "method", evidence.MethodManual, "manual or self_reported")
	c.Flags().StringVar(&report.Source, "source", "cli", "who reports it")
	c.Flags().StringVar(&payload, "payload", "", "file with a JSON payload, or - for standard input")
	triggerFlag(c, &at)
	cli.JSONFlag(c, &asJSON)
	return c
}
