package operate

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/reputation/client"
)

// Doctor returns the command that compares the manifest with observations.
func Doctor() *cobra.Command {
	var at string
	c := &cobra.Command{
		Use: "doctor", Short: "Compare the manifest's controls with the processes' observations", Args: cli.NoArgs,
		Example: `  mediator doctor`,
		Long: `Makes all processes observe their deployment. It lists each of the manifest's 44 controls, with the reason, as
observed true, observed false, or only declared (no process can observe it here). It also lists the confinement of the
processes, what keeps agents from going around the sidecar, the progress of receipts to the node, the agent's reputation
if the manifest accepts any, whether the upstream proxy answers, the ledger, and the transparency log with its
witnesses. The exit status is 1 if a control is observed false, or anything else refuses every post now, if a process or
the upstream proxy does not answer, if the node refuses receipts, or if an accepted reputation is missing.`,
		RunE: func(c *cobra.Command, _ []string) error {
			var seen struct {
				Controls    []policy.ObservedControl `json:"controls"`
				Confinement []admin.Confinement      `json:"confinement"`
				Enforcement admin.Enforcement        `json:"enforcement"`
				Delivery    *client.Status           `json:"delivery,omitempty"`
				Reputation  *admin.Reputation        `json:"reputation,omitempty"`
				Proxy       *admin.UpstreamProxy     `json:"upstreamProxy,omitempty"`
				Ledger      admin.Ledger             `json:"ledger"`
				Log         *admin.TransparencyLog   `json:"log,omitempty"`
			}
			for _, part := range []struct {
				path string
				into any
			}{
				{"/v1/controls", &seen.Controls}, {"/v1/confinement", &seen.Confinement},
				{"/v1/delivery", &seen.Delivery},
				{"/v1/reputation", &seen.Reputation}, {"/v1/ledger", &seen.Ledger},
				{"/v1/enforcement", &seen.Enforcement}, {"/v1/log", &seen.Log}, {"/v1/upstream-proxy", &seen.Proxy},
			} {
				if err := admin.Get(c.Context(), at, part.path, part.into); err != nil {
					return err
				}
			}
			err := cli.PrintText(c, seen, func(w io.Writer) error {
				printControls(w, seen.Controls)
				printConfinement(w, seen.Confinement)
				printEnforcement(w, seen.Enforcement)
				printDelivery(w, seen.Delivery)
				printReputation(w, seen.Reputation)
				printProxy(w, seen.Proxy)
				fmt.Fprintln(w, seen.Ledger.Identity)
				for _, a := range seen.Ledger.Acceptances {
					fmt.Fprintln(w, a)
				}
				printLog(w, seen.Log)
				return nil
			})
			if err != nil {
				return err
			}
			away := unknown(seen.Confinement)
			for _, name := range away {
				fmt.Fprintf(cli.Lines(c.ErrOrStderr()), "mediator: %s does not say what it observes: start it, "+
					"name the sidecar's user in its internal.uids, or see its log\n", name)
			}
			contradicted := policy.Contradicted(seen.Controls) != nil
			if !contradicted {
				if err := admin.Get(c.Context(), at, "/readyz", nil); err != nil {
					return err
				}
			}
			if len(away) > 0 || contradicted || stuck(seen.Delivery) ||
				seen.Reputation != nil && seen.Reputation.Code != "" || seen.Proxy != nil && seen.Proxy.Code != "" {
				return cli.ErrRefused
			}
			return nil
		},
	}
	cli.AdminFlag(c, &at)
	cli.JSONFlag(c)
	return c
}

func stuck(d *client.Status) bool { return d != nil && (d.Away != "" || d.Refused > 0) }

func printDelivery(w io.Writer, d *client.Status) {
	if d == nil {
		return
	}
	fmt.Fprintln(w, "receipts on their way to the node")
	state := "in order"
	if d.Away != "" {
		state = "away"
	}
	fmt.Fprintf(w, "%-14s %d not handed over", state, d.Undelivered)
	if d.Oldest != nil {
		fmt.Fprintf(w, ", the oldest signed at %s", d.Oldest.Format(time.RFC3339))
	}
	if d.Away != "" {
		fmt.Fprintf(w, ": %s", d.Away)
	}
	fmt.Fprintln(w)
	if d.Refused > 0 {
		fmt.Fprintf(w, "%-14s the receipts of %d sessions, of one because: %q\n", "refused", d.Refused, d.Reason)
	}
	if d.Pruned > 0 {
		fmt.Fprintf(w, "%-14s %d receipts were removed for their age before the node had them\n", "lost", d.Pruned)
	}
}

func printReputation(w io.Writer, r *admin.Reputation) {
	if r == nil {
		return
	}
	fmt.Fprintln(w, "reputation of the agent that posts")
	state, about := "believed", "tier "+r.Tier
	if r.Code != "" {
		state, about = "none", fmt.Sprintf("%s: %s", r.Code, r.Reason)
	}
	fmt.Fprintf(w, "%-14s %s", state, about)
	if r.Signed != nil && r.Until != nil {
		fmt.Fprintf(w, ", signed at %s, used until %s", cli.Time(*r.Signed), cli.Time(*r.Until))
	}
	fmt.Fprintln(w)
	if remedy := problem.Remedy(r.Code); remedy != "" {
		fmt.Fprintf(w, "%-14s %s\n", "remedy", remedy)
	}
}

func printProxy(w io.Writer, p *admin.UpstreamProxy) {
	if p == nil {
		return
	}
	fmt.Fprintln(w, "upstream proxy")
	if p.Code == "" {
		fmt.Fprintf(w, "%-14s %s\n", "answers", p.URL)
		return
	}
	fmt.Fprintf(w, "%-14s %s: %s (%s)\n%-14s %s\n", "away", p.URL, p.Reason, p.Code, "remedy", problem.Remedy(p.Code))
}

func printLog(w io.Writer, l *admin.TransparencyLog) {
	if l == nil {
		return
	}
	fmt.Fprintln(w, l)
	for _, name := range slices.Sorted(maps.Keys(l.Failures)) {
		fmt.Fprintf(w, "%-14s the witness %s: %s\n", "away", name, l.Failures[name])
	}
}

func unknown(processes []admin.Confinement) (names []string) {
	for _, p := range processes {
		if p.Error != "" {
			names = append(names, "mediator "+p.Process)
		}
	}
	return names
}

func printControls(w io.Writer, controls []policy.ObservedControl) {
	count := make(map[string]int)
	for _, c := range controls {
		count[c.State]++
		fmt.Fprintf(w, "%-14s %s: %t\n", c.State, c.Control, c.Declared)
		for _, e := range c.Evidence {
			mark := " "
			if e == c.Against {
				mark = "!"
			}
			fmt.Fprintln(w, strings.Repeat(" ", 13)+mark, e)
		}
	}
	fmt.Fprintf(w, "%d controls: %d observed true, %d observed false, %d only declared\n", len(controls),
		count[policy.ObservedTrue], count[policy.ObservedFalse], count[policy.DeclaredOnly])
}

func printEnforcement(w io.Writer, e admin.Enforcement) {
	state := policy.DeclaredOnly
	switch {
	case e.Missing:
		state = "missing"
	case e.Observed:
		state = "observed"
	}
	fmt.Fprintf(w, "what keeps agents from going around the sidecar\n%-14s %s: %s\n", state, e.Mode, e.Seen)
}

func printConfinement(w io.Writer, processes []admin.Confinement) {
	for _, p := range processes {
		fmt.Fprintf(w, "confinement of mediator %s\n", p.Process)
		for _, l := range p.Layers {
			state := "in force"
			if !l.InForce {
				state = "not in force"
			}
			fmt.Fprintf(w, "%-14s %s: %s\n", state, l.Name, l.Seen)
		}
		if p.Error != "" {
			fmt.Fprintf(w, "%-14s %s\n", "not known", p.Error)
		}
	}
}
