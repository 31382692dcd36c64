package operate

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/learn"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/rules"
)

type learning struct {
	from                  records.Source
	path, since, replayed string
	asYAML                bool
}

// Learn returns the command that proposes rules for recorded calls.
func Learn() *cobra.Command {
	l := learning{}
	c := &cobra.Command{
		Use: "learn", Short: "Propose rules for the recorded calls that no rule allows", Args: cli.NoArgs,
		Example: `  mediator run --learn -- ./agent
  mediator learn
  mediator learn --since 24h --yaml > rules.yaml
  mediator learn --replay rules.yaml`,
		Long: `Reads the record, and proposes rules for the calls that no rule allows. It shows how often, when and in how
many sessions each was made, and an example. On a terminal, one key decides about each proposal. The accepted ones are
added to the configuration, which is shown, checked and reloaded.

A call that may post is proposed as an action, and needs the name of the agent that posts. Sessions in which an address
was refused, a credential was repeated or a message was broken are ignored.

--replay judges the recorded calls by the configuration with the rules of FILE, or by FILE if it is a whole
configuration, and lists the calls whose decision changes. FILE has the form that --yaml prints. Nothing changes.`,
		RunE: func(c *cobra.Command, _ []string) error { return l.run(c) },
	}
	cli.StackFileFlag(c, &l.path, devstack.SidecarFile)
	l.from.Add(c)
	c.Flags().StringVar(&l.since, "since", "7d", "only calls since then: a time, a date, or how long ago")
	c.Flags().BoolVar(&l.asYAML, "yaml", false, "print the proposed rules in the form of the configuration")
	c.Flags().StringVar(&l.replayed, "replay", "", "judge the recorded calls by the rules of this file")
	cli.JSONFlag(c)
	cli.Check(c, func(c *cobra.Command) error {
		if l.asYAML && (cli.AsJSON(c) || l.replayed != "") {
			return cli.Usagef("--yaml prints proposals, without --json and --replay")
		}
		return nil
	})
	return c
}

func (l *learning) run(c *cobra.Command) error {
	raw, err := files.ReadUpTo(l.path, files.MaxInput)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	now, rules, err := l.check(raw)
	if err != nil {
		return err
	}
	if l.replayed != "" {
		return l.replay(c, raw, rules)
	}
	calls := learn.New(judge(rules))
	if err := l.read(c, func(r ledger.Record) error { calls.Add(r); return nil }); err != nil {
		return err
	}
	said := cli.Lines(c.ErrOrStderr())
	for session, code := range calls.Unfit() {
		fmt.Fprintf(said, "mediator: nothing is learnt from the session %s: %s\n", session, code)
	}
	if calls.Left > 0 {
		fmt.Fprintf(said, "mediator: %d calls are left out, because there are too many different ones: use --since\n",
			calls.Left)
	}
	proposals := calls.Propose(namesOf(now))
	switch {
	case cli.AsJSON(c):
		return cli.WriteJSON(c.OutOrStdout(), append([]*learn.Proposal{}, proposals...))
	case l.asYAML:
		return printYAML(cli.Plain(c.OutOrStdout()), proposals)
	case len(proposals) == 0:
		_, err := fmt.Fprintln(c.OutOrStdout(), "the rules allow every call that can be learnt")
		return err
	case cli.IsTerminal(c.OutOrStdout()):
		if in, ok := terminalOf(c.InOrStdin()); ok {
			return l.ask(c, in, raw, now, rules, proposals)
		}
	}
	return printProposals(c.OutOrStdout(), proposals)
}

// check checks a text of the configuration, and returns its rules.
func (l *learning) check(raw []byte) (*config.Sidecar, *rules.Rules, error) {
	c, err := config.CheckSidecar(l.path, raw)
	if err != nil {
		return nil, nil, err
	}
	rules, err := c.Rules()
	return c, rules, err
}

func (l *learning) read(c *cobra.Command, add func(ledger.Record) error) error {
	var s ledger.Query
	var err error
	if s.Since, err = admin.ParseTime(l.since, time.Now()); err != nil {
		return cli.Usage(err)
	}
	from, err := l.from.Open(c.Context())
	if err != nil {
		return err
	}
	defer from.Close()
	for r, err := range from.Selected(c.Context(), s) {
		if err == nil {
			err = add(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func judge(rules *rules.Rules) learn.Judge {
	return func(r ledger.Record) error {
		_, err := rules.Judge(r)
		return err
	}
}

func namesOf(c *config.Sidecar) (names []string) {
	for _, r := range c.AllRules() {
		names = append(names, r.Name)
	}
	return names
}

func printYAML(w io.Writer, proposals []*learn.Proposal) error {
	var rules []learn.Rule
	var about []string
	for _, p := range proposals {
		for i, r := range p.Normal {
			rules, about = append(rules, r), append(about, map[bool]string{true: sightings(p)}[i == 0])
		}
	}
	text, err := learn.YAML(rules, func(i int) string { return about[i] })
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

func sightings(p *learn.Proposal) string {
	refused := ""
	if p.Refused > 0 {
		refused = fmt.Sprintf(" (%d refused)", p.Refused)
	}
	return fmt.Sprintf("%s%s in %s, %s to %s: %s", count(p.Calls, "call"), refused, count(p.Sessions, "session"),
		cli.Time(p.First), cli.Time(p.Last), p.Example)
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func printProposals(w io.Writer, proposals []*learn.Proposal) error {
	table := cli.Table(cli.Plain(w), "CALLS", "REFUSED", "SESSIONS", "LAST", "KIND", "PROPOSAL")
	for _, p := range proposals {
		kind := "egress"
		if p.Post {
			kind = "action"
		}
		table.Row(p.Calls, p.Refused, p.Sessions, cli.Time(p.Last), kind, fmt.Sprintf("%.200s", p.About))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nOn a terminal, one key decides about each; --yaml prints the rules.")
	return err
}
