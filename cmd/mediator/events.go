package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/trigger"
)

func eventsCommand() *cobra.Command {
	var at string
	var asJSON bool
	list := &cobra.Command{
		Use: "list", Short: "List the newest 100 of the events that the trigger service keeps", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var events []trigger.Event
			if err := admin.Get(c.Context(), at, "/v1/events", &events); err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), events)
			}
			t := tabwriter.NewWriter(plainWriter{c.OutOrStdout()}, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "RECEIVED\tID\tSTATE\tKIND\tSOURCE\tMETHOD\tEVIDENCE")
			for _, e := range events {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.ReceivedAt.UTC().Format(time.RFC3339), e.ID, e.State, e.Kind, e.Source, e.Method, e.EvidenceID)
			}
			return t.Flush()
		},
	}
	var report struct {
		Kind    string          `json:"kind"`
		Method  string          `json:"method"`
		Source  string          `json:"source"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}
	var payload string
	add := &cobra.Command{
		Use: "report", Short: "Put an event on record that nobody verified; it is seen, and stands behind no post", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if payload != "" {
				raw, err := readInput(c, payload)
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
			return printResult(c, asJSON, kept, kept.EventID)
		},
	}
	add.Flags().StringVar(&report.Kind, "kind", evidence.TriggerHumanRequest, "human_request or unknown")
	add.Flags().StringVar(&report.Method, "method", evidence.MethodManual, "manual or self_reported")
	add.Flags().StringVar(&report.Source, "source", "cli", "who reports it")
	add.Flags().StringVar(&payload, "payload", "", "file with a JSON payload, or - for standard input")
	for _, c := range []*cobra.Command{list, add} {
		jsonFlag(c, &asJSON)
		c.Flags().StringVar(&at, "trigger", "unix:/run/mediator/trigger.sock", "the trigger service's internal endpoint, unix:PATH")
	}
	return group("events", "Events that start agents", list, add)
}
