package node

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/strict"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
)

type shown struct {
	c     *cobra.Command
	node  address
	owner string

	published publishing
}

type kind struct {
	name  string
	id    string // what its second argument is; empty if it takes none
	about string
	get   func(s *shown, id string) (any, error)
}

var kinds = []kind{
	{"agents", "", "all agents with a scored session (internal endpoint only)", (*shown).agents},
	{"agent", "AGENT", "an agent's reputation: the owner's thumbprint, a colon, and the subject",
		below("/v1/reputation/")},
	{"score", "SESSION|RECEIPT", "a session's score, by the session's id or the hash of a receipt", (*shown).score},
	{"signal", "SIGNAL", "a signal", below("/v1/signals/")},
	{"dispute", "DISPUTE", "a dispute: what was filed, its state, and how it ended", below("/v1/disputes/")},
}

func kindOf(args []string) (kind, error) {
	var names []string
	for _, k := range kinds {
		switch {
		case len(args) == 0 || k.name != args[0]:
			names = append(names, k.name)
		case k.id == "" && len(args) > 1:
			return k, cli.Usagef("mediator reputation show %s takes no id", k.name)
		case k.id != "" && len(args) != 2:
			return k, cli.Usagef("mediator reputation show %s takes %s", k.name, k.id)
		default:
			return k, nil
		}
	}
	if len(args) == 0 {
		return kind{}, cli.Usagef("mediator reputation show takes one of %s", strings.Join(names, ", "))
	}
	return kind{}, cli.Usagef("mediator reputation show knows no %q%s", args[0], strict.Suggest(args[0], names))
}

// Show returns the command that shows what the node knows. It belongs below the command that runs the node.
func Show() *cobra.Command {
	s := shown{}
	var lines []string
	for _, k := range kinds {
		lines = append(lines, fmt.Sprintf("  %-21s %s", k.name+" "+k.id, k.about))
	}
	s.c = &cobra.Command{
		Use: "show KIND [ID]", Short: "Print what the node knows of agents, scores, signals and disputes, as JSON",
		Example: `  mediator reputation show agent UhmwVNcb...:agent:worker-1
  mediator reputation show score ses_... > score.json
  mediator reputation show dispute dsp_5d41... > dispute.json   # for the arbiter`,
		Long: "Asks the node, prints its JSON, and verifies nothing. The kinds:\n\n" + strings.Join(lines, "\n") + `

A reputation comes with its token, and a score with its token and its inputs except the receipts. mediator verify
checks both, and computes the score again. Only the internal endpoint adds the strategies that the agent has revealed.

With --erc8004 it prints the call of an ERC-8004 registry that publishes the agent or score, for any wallet to send: in
an identity registry (eip155:CHAIN:ADDRESS) the agent's registration, or its new file once it has an ID (:ID); with
--client, feedback with the node's token, which mediator verify checks; with --revoke, the end of that feedback.`,
		Args: func(_ *cobra.Command, args []string) error {
			k, err := kindOf(args)
			if err != nil {
				return err
			}
			return s.published.check(k.name)
		},
		RunE: func(c *cobra.Command, args []string) error {
			k, err := kindOf(args)
			if err != nil {
				return err
			}
			answer, err := k.get(&s, append(args, "")[1])
			if err != nil {
				return err
			}
			if s.published.entry != "" {
				if answer, err = s.published.call(answer); err != nil {
					return err
				}
			}
			return cli.WriteJSON(c.OutOrStdout(), answer)
		},
	}
	s.node.flags(s.c)
	s.c.Flags().StringVar(&s.owner, "owner", "",
		"with score, the owner's thumbprint, if several owners have a session with this id")
	s.published.flags(s.c)
	return s.c
}

func below(path string) func(s *shown, id string) (any, error) {
	return func(s *shown, id string) (any, error) {
		var answer json.RawMessage
		return &answer, s.node.get(s.c.Context(), path+url.PathEscape(id), &answer)
	}
}

func (s *shown) agents(string) (any, error) {
	all, after := []accrual.Reputation{}, ""
	for {
		var part struct {
			Agents []accrual.Reputation `json:"agents"`
		}
		if err := s.node.get(s.c.Context(), "/v1/reputation?after="+url.QueryEscape(after), &part); err != nil {
			return nil, err
		}
		if len(part.Agents) == 0 {
			return all, nil
		}
		last := part.Agents[len(part.Agents)-1].AgentID
		if last <= after {
			return nil, fmt.Errorf("%s does not answer like a node: its list does not continue after %.300q", s.node.at, after)
		}
		all, after = append(all, part.Agents...), last
	}
}

// score gets a score with the data to compute it again.
func (s *shown) score(of string) (any, error) {
	ctx, path := s.c.Context(), "/v1/sessions/"+url.PathEscape(of)+"/score"
	if evidence.IsHash(of) {
		path = "/v1/score/" + of
	}
	if s.owner != "" {
		path += "?owner=" + url.QueryEscape(s.owner)
	}
	var score archive.Score
	if err := s.node.get(ctx, path, &score); err != nil {
		return nil, err
	}
	var claims autonomy.Claims
	if err := json.Unmarshal(score.Score, &claims); err != nil {
		return nil, fmt.Errorf("the node's answer holds no score: %w", err)
	}
	if claims.Closed && claims.Signals.Challenge.Issued > 0 && !s.node.public() {
		path := "/v1/sessions/" + url.PathEscape(claims.Session) + "/challenges?owner=" + url.QueryEscape(claims.Owner)
		if err := s.node.get(ctx, path, &score); err != nil {
			return nil, err
		}
	}
	if claims.BaselineHash != "" {
		if err := s.node.get(ctx, "/v1/baselines/"+claims.BaselineHash, &score.Baseline); err != nil {
			return nil, err
		}
	}
	return score, nil
}
