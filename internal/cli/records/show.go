package records

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/match"
)

// Posts returns the commands about the record of calls. Another package makes those about exports.
func Posts(exports ...*cobra.Command) *cobra.Command {
	c := cli.Group("posts", "The record of calls", append([]*cobra.Command{postsList(), postsShow()}, exports...)...)
	c.Aliases = []string{"evidence"}
	return c
}

func postsShow() *cobra.Command {
	var at string
	c := &cobra.Command{
		Use: "show ID|FILE", Short: "Show one record: what happened, and its chain of evidence",
		Args: cli.ExactArgs(1, "the id of a record or its beginning, a file, or - for standard input"),
		Example: `  mediator posts show post_06H0
  mediator posts show post_06H0 --json > record.json
  mediator posts show record.json`,
		Long: `Shows a record: what happened to the call, its checks and times, and its chain of evidence as a tree. ID asks
the sidecar; FILE, whose name has a dot or a slash, is the output of --json. Nothing is verified here: see verify.`,
		RunE: func(c *cobra.Command, args []string) error {
			if args[0] == "" {
				return cli.Usagef("%s takes the id of a record, or its beginning, and not an empty one",
					c.CommandPath())
			}
			p, err := record(c, at, args[0])
			if err != nil {
				return err
			}
			return cli.PrintText(c, p, func(w io.Writer) error {
				Print(w, p)
				_, err := io.WriteString(w, whatRecordsShow)
				return err
			})
		},
	}
	cli.AdminFlag(c, &at)
	cli.JSONFlag(c)
	return c
}

func record(c *cobra.Command, at, name string) (p admin.Record, err error) {
	if name != "-" && !strings.ContainsAny(name, "./") { // no id has either
		err = admin.Get(c.Context(), at, "/v1/posts/"+url.PathEscape(name), &p)
		return p, err
	}
	raw, err := cli.ReadInput(c, name)
	if err != nil {
		return p, err
	}
	shown, err := archive.ParseRecord(raw, name)
	return admin.Record{Record: shown.Record, Receipts: shown.Receipts, Proofs: shown.Proofs}, err
}

const whatRecordsShow = `
Nothing is verified here; mediator verify does that. No record shows that no human was involved anywhere.
nonHumanIdentityProven: false
`

func took(p ledger.Record) string {
	if p.Finished.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(p.Finished.Sub(p.Started).Microseconds())/1000)
}

// Print prints all of a record.
func Print(w io.Writer, p admin.Record) {
	w = cli.Lines(w)
	fmt.Fprintf(w, "%s  %s  %s %s%s\n", p.ID, p.State, p.Method, p.Host, p.Path)
	if p.Code != "" {
		fmt.Fprintf(w, "  refused      %s at step %s: %s\n", p.Code, p.Step, p.Reason)
		if remedy := problem.Remedy(p.Code); remedy != "" {
			fmt.Fprintf(w, "  remedy       %s\n", remedy)
		}
	}
	if p.Status > 0 {
		fmt.Fprintf(w, "  upstream     answered %d\n", p.Status)
	}
	if p.Flow == "post" && p.State.Outcome() {
		fmt.Fprintf(w, "  outcome      %s\n", p.Word())
	}
	if p.Learning {
		fmt.Fprintln(w, "  learning     the session posts nothing")
	}
	for _, f := range []struct{ name, value string }{
		{"rule", p.Rule}, {"session", p.Session}, {"event", p.Event}, {"subject", p.Subject}, {"action", p.Action},
		{"resource", p.Resource}, {"via", via[p.Via]}, {"message", p.Message}, {"result", p.Result},
		{"unfit", p.Unfit},
		{"content", p.ContentHash}, {"binding", p.BindingHash}, {"capability", p.CapabilityID},
	} {
		if f.value != "" {
			fmt.Fprintf(w, "  %-12s %s\n", f.name, f.value)
		}
	}
	printPurpose(w, p.Purpose)
	for _, t := range p.Tools {
		rule := ""
		if t.Unnamed {
			rule = " (no rule names it)"
		}
		fmt.Fprintf(w, "  tool         %s %s%s\n", t.Name, t.Hash, rule)
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
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  check        %s %-28s %s %s", mark, k.Name, k.Code, k.Detail),
			" "))
	}
	PrintTimeline(w, p)
	if p.Assurance != nil {
		printAssurance(w, *p.Assurance)
	}
	if len(p.Artifacts) > 0 {
		fmt.Fprintln(w, "  evidence")
		DrawChain(cli.Indent(w), p.Artifacts)
	}
}

// via describes the ways of [ledger.Record.Via].
var via = map[string]string{
	"direct": "direct", "proxy": "upstream proxy",
	"resolving-proxy": "upstream proxy, which resolved the host's name",
}

func printPurpose(w io.Writer, p match.Purpose) {
	var about []string
	if p.Comment != "" {
		about = append(about, p.Comment)
	}
	if p.Owner != "" {
		about = append(about, "owner "+p.Owner)
	}
	if !p.Expires.IsZero() {
		about = append(about, "expires "+cli.Time(p.Expires))
	}
	if len(about) > 0 {
		fmt.Fprintf(w, "  %-12s %s\n", "of the rule", strings.Join(about, "; "))
	}
}

func printModel(w io.Writer, m ledger.ModelCall) {
	how := []string{m.Outcome}
	for _, f := range []struct{ name, value string }{{"asked", m.Model}, {"answered by", m.AnsweredBy},
		{"error", m.Error}, {"unread", m.Unread}, {"unseen", strings.Join(m.Hosted, " ")}} {
		if f.value != "" {
			how = append(how, f.name+" "+f.value)
		}
	}
	fmt.Fprintf(w, "  model        %s %s\n", m.API, strings.Join(how, ", "))
	printFigures(w, "tokens",
		[]figure{{"input", m.Input}, {"output", m.Output}, {"cached", m.Cached}, {"reasoning", m.Reasoning}}, 1)
	printFigures(w, "tool calls", []figure{{"agent", m.Calls}, {"provider", m.HostedCalls}}, 1)
	printFigures(w, "model ms", []figure{{"sent", m.Sent}, {"head", m.Head}, {"first content", m.First},
		{"end", m.End}},
		1000)
}

type figure struct {
	name string
	*ledger.Figure
}

// printFigures prints figures and their states in one line. Figures are divided by per.
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
