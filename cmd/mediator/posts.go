package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy"
)

// adminFlag adds the flag for the sidecar's admin endpoint.
func adminFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "admin", "unix:/run/mediator/admin.sock", "the sidecar's admin endpoint, unix:PATH")
}

func postsCommand() *cobra.Command {
	var at, key string
	var filter postFilter
	var limit int
	var asJSON bool
	list := &cobra.Command{
		Use: "list", Short: "List the record, newest first", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := admin.CheckQuery(limit, filter.state, filter.flow); err != nil {
				return usageError{err}
			}
			posts, err := filter.list(c.Context(), at, limit, key)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), posts)
			}
			printPosts(plainWriter{c.OutOrStdout()}, posts)
			return nil
		},
	}
	list.Flags().IntVar(&limit, "limit", 50, fmt.Sprint("how many, at most ", ledger.MaxLimit))
	list.Flags().StringVar(&filter.state, "state", "", "only this state: "+admin.JoinWords(ledger.States[:]))
	list.Flags().StringVar(&filter.session, "session", "", "only this session")
	list.Flags().StringVar(&filter.flow, "flow", "", "only this flow: "+admin.JoinWords(proxy.Flows[:]))
	list.Flags().StringVar(&key, "key", "", "only those with an artifact that this key has signed: a kid, or a name for all its versions; the whole record is looked through")
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
	for _, c := range []*cobra.Command{list, show} {
		adminFlag(c, &at)
		jsonFlag(c, &asJSON)
	}
	return group("posts", "The record of calls", list, show)
}

// postFilter selects records. An empty field selects all.
type postFilter struct{ state, session, flow string }

// list returns the newest records, at most limit. With a key, it returns only those with an artifact that the key
// signed.
func (f postFilter) list(ctx context.Context, at string, limit int, key string) ([]ledger.Record, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}, "state": {f.state}, "session": {f.session}, "flow": {f.flow}}
	found := []ledger.Record{}
	for {
		var page []ledger.Record
		if err := admin.Get(ctx, at, "/v1/posts?"+q.Encode(), &page); err != nil {
			return nil, err
		}
		if key == "" {
			return page, nil
		}
		for _, p := range page {
			if len(found) < limit && signedBy(p, key) {
				found = append(found, p)
			}
		}
		if len(page) == 0 || len(found) == limit {
			return found, nil
		}
		q.Set("before", page[len(page)-1].ID)
		q.Set("limit", "200")
	}
}

// signedBy reports whether a record holds an artifact that the key has signed.
func signedBy(p ledger.Record, key string) bool {
	return slices.ContainsFunc(p.Artifacts, func(a ledger.Artifact) bool {
		return evidence.MatchKeyID([]string{key}, evidence.KeyIDOf(a.Token))
	})
}

// maxListedCall bounds how much of a call, which is ASCII, a line of the list shows, in bytes. posts show shows all of
// it.
const maxListedCall = 200

func printPosts(w io.Writer, posts []ledger.Record) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TIME\tID\tFLOW\tSTATE\tCODE\tSTATUS\tMS\tCALL")
	for _, p := range posts {
		status := "-"
		if p.Status > 0 {
			status = strconv.Itoa(p.Status)
		}
		call := p.Method + " " + p.Host + p.Path
		if len(call) > maxListedCall { // one call with a path of 60 KiB would hide all others
			call = call[:maxListedCall] + "…"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Started.UTC().Format(time.RFC3339), p.ID, p.Flow, p.State, orDash(p.Code), status, took(p), call)
	}
	t.Flush()
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
	if p.Model != nil {
		printModel(w, *p.Model)
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

// printModel prints what was seen of a call to a model.
func printModel(w io.Writer, m ledger.ModelCall) {
	how := []string{m.Outcome}
	for _, f := range []struct{ name, value string }{{"asked", m.Model}, {"answered by", m.AnsweredBy}, {"error", m.Error}, {"unread", m.Unread}, {"unseen", strings.Join(m.Hosted, " ")}} {
		if f.value != "" {
			how = append(how, f.name+" "+f.value)
		}
	}
	fmt.Fprintf(w, "  model        %s %s\n", m.API, strings.Join(how, ", "))
	printFigures(w, "tokens", []figure{{"input", m.Input}, {"output", m.Output}, {"cached", m.Cached}, {"reasoning", m.Reasoning}}, 1)
	printFigures(w, "tool calls", []figure{{"agent", m.Calls}, {"provider", m.HostedCalls}}, 1)
	printFigures(w, "model ms", []figure{{"sent", m.Sent}, {"head", m.Head}, {"first content", m.First}, {"end", m.End}}, 1000)
}

type figure struct {
	name string
	*ledger.Figure
}

// printFigures prints figures in one line, each with how it is known. per is how many of them are one of what is printed.
func printFigures(w io.Writer, name string, figures []figure, per float64) {
	var all []string
	for _, f := range figures {
		if f.Figure == nil {
			all = append(all, f.name+" not measured")
			continue
		}
		all = append(all, fmt.Sprintf("%s %s %s", f.name, strconv.FormatFloat(float64(f.N)/per, 'f', -1, 64), f.State))
	}
	fmt.Fprintf(w, "  %-12s %s\n", name, strings.Join(all, ", "))
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
