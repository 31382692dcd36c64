package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/dispute"
)

// Dispute returns the commands about disputes.
func Dispute() *cobra.Command {
	return cli.Group("dispute", "Disputes between agents", open(), resolve())
}

func open() *cobra.Command {
	var contract dispute.Contract
	var challenge dispute.Challenge
	var receipts []string
	var kind string
	var asJSON bool
	c := &cobra.Command{
		Use: "open [SIGNAL]", Short: "Dispute a signal, or what the receipts of an agent show",
		Args: func(c *cobra.Command, args []string) error {
			if against := c.Flags().Changed("against"); len(args) > 1 || (len(args) == 1) == against {
				return cli.Usagef("%s takes the id of a signal, or --against AGENT", c.CommandPath())
			}
			return nil
		},
		Example: `  mediator dispute open sig_06H0... --claim "It was commit 77ab" --reasoning "The log of the build names it"
  mediator dispute open --against UhmwVNcb...:agent:worker-1 --type timing --receipt 5d41...`,
		Long: `Opens a dispute about a signal, against the agent that published it, or against an agent whose receipts are
named. Receipts decide disputes of the types timing, knowledge and consistency; an arbiter decides those of the type
general. The loser pays (docs/disputes.md).` + whoPublishes,
	}
	by := authorFlags(c)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if err := by.open(c.Context()); err != nil {
			return err
		}
		now := time.Now().Unix()
		var d dispute.Document
		if len(args) == 1 {
			if contract.ChallengeID == "" {
				contract.ChallengeID = "con_" + evidence.NewID()
			}
			contract.OriginalSignalID, contract.ChallengerAgentID, contract.Timestamp = args[0], by.id, now
			contract.ChallengeType, contract.TargetReceipts = kind, receipts
			contract.Signature, err = by.sign(contract)
			d = contract
		} else {
			challenge.ChallengerID, challenge.ChallengeType, challenge.TargetReceipts, challenge.Timestamp = by.id, kind,
				receipts, now
			challenge.Signature, err = by.sign(challenge)
			d = challenge
		}
		if err != nil {
			return err
		}
		var opened reputation.Dispute
		if err := by.publish(c.Context(), "/v1/dispute", d, &opened); err != nil {
			return err
		}
		return printDispute(c, asJSON, opened)
	}
	c.Flags().StringVar(&contract.ChallengeID, "id", "", "the contract's id; default: one that is made")
	c.Flags().StringVar(&contract.CounterClaim, "claim", "", "what is true in place of the signal")
	c.Flags().StringVar(&contract.ReasoningTrace, "reasoning", "", "why")
	c.Flags().StringVar(&challenge.TargetID, "against", "", "the agent whose receipts are disputed")
	c.Flags().StringVar(&challenge.Evidence, "evidence", "", "of a dispute --against an agent: what shows it")
	c.Flags().StringVar(&kind, "type", "",
		"timing, knowledge, consistency or general; default, of a signal alone: general")
	c.Flags().StringSliceVar(&receipts, "receipt", nil, "hash of a receipt that it is about; can be repeated")
	cli.JSONFlag(c, &asJSON)
	return c
}

func drawDisputes(w io.Writer, all []reputation.Dispute) error {
	t := cli.Table(w, "NUMBER", "DISPUTE", "TYPE", "CHALLENGER", "TARGET", "STATUS")
	for _, d := range all {
		o, err := openedOf(d)
		if err != nil {
			return err
		}
		t.Row(d.Number, d.DisputeID, o.Opened.Type, o.Opened.Challenger, o.Opened.Target, status(d))
	}
	return t.Flush()
}

func openedOf(d reputation.Dispute) (e dispute.Entry, err error) {
	if json.Unmarshal(d.Opened, &e) != nil || e.Opened == nil {
		return e, errors.New("it holds no dispute as the node shows one")
	}
	return e, nil
}

func status(d reputation.Dispute) string {
	if d.Status != dispute.StatusResolved {
		return d.Status
	}
	text := d.Outcome + ", by " + d.Resolver
	if d.Provisional {
		text += " (provisional)"
	}
	return text
}

func printDispute(c *cobra.Command, asJSON bool, d reputation.Dispute) error {
	e, err := openedOf(d)
	if err != nil {
		return err
	}
	return cli.PrintText(c, asJSON, d, func(w io.Writer) error {
		fmt.Fprintf(w, "dispute     %s, %s\nchallenger  %s\ntarget      %s\n", d.DisputeID, status(d),
			cli.Unbroken(e.Opened.Challenger), cli.Unbroken(e.Opened.Target))
		fmt.Fprintf(w, "type        %s, about %d receipts\nopened      %s, has to be resolved until %s\n", e.Opened.Type,
			len(e.Opened.Receipts), cli.Seconds(e.At), cli.Seconds(e.Opened.Deadline))
		var f filed
		if json.Unmarshal(d.Filing, &f) == nil {
			f.draw(w)
		}
		var end dispute.Entry
		if json.Unmarshal(d.Resolved, &end) == nil && end.Resolved != nil {
			fmt.Fprintf(w, "resolved    %s: %s\n", cli.Seconds(end.At), hung(end.Resolved.Reason))
		}
		return nil
	})
}

type filed struct {
	Signal    string `json:"original_signal_id"`
	Claim     string `json:"counter_claim"`
	Reasoning string `json:"reasoning_trace"`
	Evidence  string `json:"evidence"`
}

func (f filed) draw(w io.Writer) {
	for _, line := range []struct{ name, text string }{{"signal", f.Signal}, {"claim", f.Claim},
		{"reasoning", f.Reasoning}, {"evidence", f.Evidence}} {
		if line.text != "" {
			fmt.Fprintf(w, "%-11s %s\n", line.name, hung(line.text))
		}
	}
}

// hung indents all lines of a text but the first, so that none looks like a line of the program.
func hung(text string) string { return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 12)) }
