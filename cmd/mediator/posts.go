package main

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
)

// adminFlag adds the flag for the sidecar's admin endpoint.
func adminFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "admin", "unix:/run/mediator/admin.sock", "the sidecar's admin endpoint, unix:PATH")
}

func postsCommand() *cobra.Command {
	var at string
	var asJSON bool
	show := &cobra.Command{
		Use: "show ID", Short: "Show one record: its state, artifacts, verifications, times, and what it amounts to", Args: exactArgs(1, "the id of a record, or its beginning"),
		RunE: func(c *cobra.Command, args []string) error {
			if args[0] == "" {
				return usagef("%s takes the id of a record, or its beginning, and not an empty one", c.CommandPath())
			}
			var p admin.Record
			if err := admin.Get(c.Context(), at, "/v1/posts/"+url.PathEscape(args[0]), &p); err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), p)
			}
			printRecord(plainWriter{c.OutOrStdout()}, p)
			return nil
		},
	}
	adminFlag(show, &at)
	jsonFlag(show, &asJSON)
	return group("posts", "The record of calls", postsList(), show)
}

func took(p ledger.Record) string {
	if p.Finished.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(p.Finished.Sub(p.Started).Microseconds())/1000)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func printRecord(w io.Writer, p admin.Record) {
	fmt.Fprintf(w, "%s  %s  %s %s%s\n", p.ID, p.State, p.Method, p.Host, p.Path)
	if p.Code != "" {
		fmt.Fprintf(w, "  refused      %s at step %s: %s\n", p.Code, p.Step, p.Reason)
	}
	if p.Status > 0 {
		fmt.Fprintf(w, "  upstream     answered %d\n", p.Status)
	}
	for _, f := range []struct{ name, value string }{
		{"rule", p.Rule}, {"session", p.Session}, {"event", p.Event}, {"subject", p.Subject}, {"action", p.Action}, {"resource", p.Resource}, {"message", p.Message}, {"result", p.Result},
		{"content", p.ContentHash}, {"binding", p.BindingHash}, {"capability", p.CapabilityID},
	} {
		if f.value != "" {
			fmt.Fprintf(w, "  %-12s %s\n", f.name, f.value)
		}
	}
	var steps []string
	for _, s := range p.Steps {
		steps = append(steps, fmt.Sprintf("%s %.2f", s.Name, float64(s.Micros)/1000))
	}
	fmt.Fprintf(w, "  ms           %s (%s)\n", took(p.Record), strings.Join(steps, ", "))
	for _, k := range p.Checks {
		mark := "ok     "
		if !k.OK {
			mark = "REFUSED"
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  check        %s %-28s %s %s", mark, k.Name, k.Code, k.Detail), " "))
	}
	if p.Assurance != nil {
		printAssurance(w, *p.Assurance)
	}
	if len(p.Artifacts) > 0 {
		fmt.Fprintln(w, "  evidence")
		chainTree(p.Artifacts).draw(indent{w})
	}
}

// indent indents the lines that are written to it by four columns. Each Write has to be whole lines.
type indent struct{ w io.Writer }

func (i indent) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		if _, err := io.WriteString(i.w, "    "+line); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func printAssurance(w io.Writer, a policy.Assurance) {
	fmt.Fprintf(w, "  assurance    %s; nonHumanIdentityProven: %t\n", a.Claim, a.NonHumanIdentityProven())
	if len(a.Issues) > 0 {
		fmt.Fprintf(w, "  missing      %s\n", strings.Join(a.Issues, ", "))
	}
	for _, t := range a.Threats {
		switch {
		case t.Covered:
			fmt.Fprintf(w, "  covered      %s. Open: %s\n", t.Name, t.NotCovered)
		case t.By == "":
			fmt.Fprintf(w, "  not covered  %s. Open: %s\n", t.Name, t.NotCovered)
		default:
			fmt.Fprintf(w, "  not covered  %s. It would be: %s\n", t.Name, t.By)
		}
	}
}
