package verifications

import (
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/reputation/verification"
)

func show() *cobra.Command {
	return records.Ask(&cobra.Command{
		Use: "show SESSION", Short: "Show a verification as the node knows it", Args: cli.ExactArgs(1, "the id of a verification's session"),
		Example: `  mediator verification show 5f0c... --dir .mediator`,
		Long: `Asks the node, at its internal endpoint, what it knows of a verification: the calls that it served, and what it saw of the turns. It forgets
a verification that is over after an hour. What an agent has passed last is in its reputation: mediator reputation show.`,
	}, func(args []string) string { return "/v1/verifications/" + url.PathEscape(args[0]) }, printOverview)
}

func list() *cobra.Command {
	return records.Ask(&cobra.Command{
		Use: "list", Short: "List the verifications that were opened last", Args: cli.NoArgs,
		Example: `  mediator verification list --dir .mediator`,
		Long:    `Asks the node, at its internal endpoint, for the verifications of the last hour, the latest first, at most 100.`,
	}, func([]string) string { return "/v1/verifications" }, printOverviews)
}

// overviews is what the node says of its verifications.
type overviews struct {
	Verifications []verification.Overview `json:"verifications"`
}

func printOverviews(c *cobra.Command, asJSON bool, said overviews) error {
	return cli.PrintText(c, asJSON, said.Verifications, func(out io.Writer) error {
		t := cli.Table(out, "SESSION", "OPENED", "STATE", "TASK", "TURNS", "CALLER")
		for _, o := range said.Verifications {
			t.Row(o.Session, clock(o.Opened), o.State, o.Task, len(o.Turns), fmt.Sprintf("%s (%s)", o.Subject, o.SubjectBasis))
		}
		return t.Flush()
	})
}

func clock(ms int64) string { return cli.Time(time.UnixMilli(ms)) }

func printOverview(c *cobra.Command, asJSON bool, o verification.Overview) error {
	return cli.PrintText(c, asJSON, o, func(out io.Writer) error { return drawOverview(out, o) })
}

func drawOverview(out io.Writer, o verification.Overview) error {
	fmt.Fprintf(out, "session   %s, %s\ncaller    %s (%s)\nkey       %s\ntask      %s\nopened    %s\n",
		o.Session, o.State, cli.Unbroken(o.Subject), o.SubjectBasis, o.Key, o.Task, clock(o.Opened))
	for _, c := range o.Calls {
		fmt.Fprintf(out, "%4d call  %s, %s\n", c.Step, c.Tool, toldBy(c.Turn))
	}
	for i, t := range o.Turns {
		fmt.Fprintf(out, "%4d turn  %d at %s, %s: hash %s, call %s, canary %s\n", t.Step, i+1, clock(t.At), t.Tool, holds(t.Chained), holds(t.Served), holds(t.Used))
	}
	if o.FollowUp != "" {
		fmt.Fprintf(out, "follow-up %s\n", o.FollowUp)
	}
	answer := "none"
	switch {
	case o.Answered.Observed:
		answer = fmt.Sprintf("step %d, observed", o.Answered.Step)
	case o.Answered.Step > 0:
		answer = fmt.Sprintf("step %d, declared", o.Answered.Step)
	}
	_, err := fmt.Fprintf(out, "answer    %s\n", answer)
	return err
}

func toldBy(turn int) string {
	if turn == 0 {
		return "no turn about it"
	}
	return fmt.Sprintf("turn %d is about it", turn)
}

func holds(seen bool) string {
	if seen {
		return "observed"
	}
	return "not seen"
}
