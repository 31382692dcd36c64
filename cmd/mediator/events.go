package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/trigger"
)

func eventsCommand() *cobra.Command {
	var at string
	var asJSON bool
	list := &cobra.Command{
		Use: "list", Short: "List the events that the trigger service keeps, newest first", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var events []trigger.Event
			if err := getJSON(c.Context(), at, "/v1/events", &events); err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), events)
			}
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "RECEIVED\tID\tSTATE\tKIND\tSOURCE\tMETHOD\tEVIDENCE")
			for _, e := range events {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.ReceivedAt.UTC().Format(time.RFC3339), e.ID, e.State, e.Kind, e.Source, e.Method, e.EvidenceID)
			}
			return t.Flush()
		},
	}
	list.Flags().StringVar(&at, "trigger", "unix:/run/mediator/trigger.sock", "the trigger service's internal endpoint, unix:PATH")
	list.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return group("events", "Events that start agents", list)
}
