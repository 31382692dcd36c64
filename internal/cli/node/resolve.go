package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/dispute"
)

const maxDispute = 1 << 20

// Dispute returns the commands about disputes.
func Dispute() *cobra.Command {
	return cli.Group("dispute", "Disputes between agents", resolve(), clock())
}

func resolve() *cobra.Command {
	var d dispute.Decision
	var key, audience, signed string
	var node address
	c := &cobra.Command{
		Use: "resolve FILE", Short: "Decide a general dispute, as its arbiter",
		Args: cli.ExactArgs(1, "the file of a dispute, as mediator reputation show dispute prints it"),
		Example: `  mediator dispute resolve dispute.json --outcome target_wins --reason "The log shows it" \
      --arbiter-key arbiter.key.jwk --audience mediator-reputation > decision.jwt
  mediator dispute resolve dispute.json --decision decision.jwt --node https://node.example.com`,
		Long: `Signs an arbiter's decision on a dispute and prints it. This needs no network: keep the key on a machine
without one. Read the dispute in the file first; the signed decision names that document by its hash. The second form
hands a decision over to the node. Anybody may do that.

Make the key like a root (mediator keys root --name arbiter). The node's disputes.arbiters name the public files;
more than half of them must agree. No party may hold a private key. A decision is valid for seven days.`,
		RunE: func(c *cobra.Command, args []string) error {
			of, err := readDispute(args[0])
			if err != nil {
				return err
			}
			if signed != "" {
				return node.hand(c, "/v1/disputes/"+url.PathEscape(of.DisputeID)+"/resolution", "decision", signed)
			}
			if d.Document, err = documentOf(of); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			d.DisputeID = of.DisputeID
			return printSigned(c, dispute.DecisionKind, key, audience, d)
		},
	}
	c.Flags().StringVar(&d.Outcome, "outcome", "", "challenger_wins, target_wins or inconclusive")
	c.Flags().StringVar(&d.Reason, "reason", "", "why, for everybody to read")
	c.Flags().BoolVar(&d.Malicious, "malicious", false, "the challenger has lost on forged or contradictory evidence")
	c.Flags().StringVar(&key, "arbiter-key", "", "the arbiter's private key")
	c.Flags().StringVar(&audience, "audience", "", "the node's audience, as its configuration has it")
	c.Flags().StringVar(&signed, "decision", "", "a decision that was signed before, to hand over")
	node.flags(c)
	cli.Check(c, func(c *cobra.Command) error {
		for _, name := range []string{"outcome", "reason", "arbiter-key", "audience"} {
			if c.Flags().Changed(name) == (signed != "") {
				return cli.Usagef("%s takes either --decision, or --outcome, --reason, --arbiter-key and --audience",
					c.CommandPath())
			}
		}
		return nil
	})
	return c
}

// printSigned signs a statement for a node with the key of a file, for as long as the statement may hold.
func printSigned[C any](c *cobra.Command, kind evidence.Kind[C], file, audience string, claims C) error {
	key, err := keyring.ReadRootKey(file)
	if err != nil {
		return err
	}
	token, err := keyring.Sign(c.Context(), kind, key, audience, kind.MaxLifetime, time.Now, claims)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), token)
	return err
}

func readDispute(path string) (d reputation.Dispute, err error) {
	raw, err := files.ReadUpTo(path, maxDispute)
	if err != nil {
		return d, err
	}
	if err := strictjson.ParseMembers(raw, &d); err != nil {
		return d, fmt.Errorf("%s is not a dispute, as mediator reputation show dispute prints it: %w", path, err)
	}
	return d, nil
}

// documentOf returns the hash of the filed document, made from its text in the file.
func documentOf(d reputation.Dispute) (string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(d.Filing, &members); err != nil {
		return "", errors.New("it holds no document")
	}
	delete(members, "signature") // a sidecar's is longer than that of an agent which signs itself
	raw, err := json.Marshal(members)
	if err != nil {
		return "", err
	}
	f, err := dispute.ParseFiling(raw)
	if err != nil {
		return "", err
	}
	if f.Type() != dispute.TypeGeneral {
		return "", fmt.Errorf("the dispute is of the type %s, which receipts decide", f.Type())
	}
	hash, err := dispute.HashOf(f.Document())
	if err == nil && dispute.DisputeID(hash) != d.DisputeID {
		err = fmt.Errorf("the document does not belong to the dispute %s", d.DisputeID)
	}
	return hash, err
}
