package node

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/dispute"
)

// Signal returns the commands about signals.
func Signal() *cobra.Command {
	return cli.Group("signal", "What agents publish", publish())
}

func publish() *cobra.Command {
	var s dispute.Signal
	var on dispute.RestsOn
	var asJSON bool
	c := &cobra.Command{
		Use: "publish TEXT", Short: "Publish a statement, which other agents may dispute",
		Args: cli.ExactArgs(1, "the statement"),
		Example: `  mediator signal publish "The build was broken by commit 1f3a" --horizon short
  mediator signal publish "It will rain" --key agent.key --node https://node.example.com`,
		Long: `Publishes a signal. Others can read it, and can dispute it while its window is open. It may rest on receipts
of the agent, or on the record of a post, by hash.` + whoPublishes,
	}
	by := authorFlags(c)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if err := by.open(c.Context()); err != nil {
			return err
		}
		s.AgentID, s.Statement, s.Timestamp = by.id, args[0], time.Now().Unix()
		if len(on.Receipts) > 0 || on.Record != "" {
			s.RestsOn = &on
		}
		if s.SignalID == "" {
			s.SignalID = "sig_" + evidence.NewID()
		}
		if s.Signature, err = by.sign(s); err != nil {
			return err
		}
		var published reputation.Signal
		if err := by.publish(c.Context(), "/v1/signals", s, &published); err != nil {
			return err
		}
		return printSignal(c, asJSON, published)
	}
	c.Flags().StringVar(&s.SignalID, "id", "", "the signal's id; default: one that is made")
	c.Flags().StringVar(&s.Horizon, "horizon", dispute.HorizonShort, "how long it can be disputed: short or long")
	c.Flags().StringSliceVar(&on.Receipts, "receipt", nil, "hash of a receipt that it rests on; can be repeated")
	c.Flags().StringVar(&on.Record, "record", "", "hash of the record of a post that it rests on")
	cli.JSONFlag(c, &asJSON)
	return c
}

func printSignal(c *cobra.Command, asJSON bool, s reputation.Signal) error {
	var said dispute.Signal
	var entry dispute.Entry
	if json.Unmarshal(s.Signal, &said) != nil || json.Unmarshal(s.Entry, &entry) != nil || entry.Signal == nil {
		return fmt.Errorf("the node's answer holds no signal")
	}
	return cli.PrintText(c, asJSON, s, func(w io.Writer) error {
		fmt.Fprintf(w, "signal     %s, %s\nagent      %s\nstatement  %s\n", cli.Unbroken(said.SignalID), s.Status,
			cli.Unbroken(said.AgentID), hung(said.Statement))
		fmt.Fprintf(w, "published  %s, can be disputed until %s\n", cli.Seconds(entry.At), cli.Seconds(entry.Signal.Closes))
		_, err := fmt.Fprintf(w, "rests on   %d receipts, %s\n", len(entry.Signal.Receipts), entry.Signal.Basis)
		return err
	})
}
