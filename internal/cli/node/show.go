package node

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/strict"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/verification"
)

type shown struct {
	c      *cobra.Command
	node   address
	owner  string
	asJSON bool
}

type kind struct {
	name  string
	id    string // what its second argument is; empty if it takes none
	about string
	show  func(s *shown, id string) error
}

var kinds = []kind{
	{"agents", "", "all agents with a scored session", (*shown).agents},
	{"agent", "AGENT", "the reputation of an agent: its owner's thumbprint, a colon, and its subject",
		asked("/v1/reputation/", (*shown).reputation)},
	{"score", "SESSION|RECEIPT", "the score of a session, by its id or by the hash of a receipt", (*shown).score},
	{"signal", "SIGNAL", "a signal; while it is provisional it can be disputed, and counts for nothing",
		asked("/v1/signals/", (*shown).signal)},
	{"dispute", "DISPUTE", "a dispute: what was filed, its state, and how it ended",
		asked("/v1/disputes/", (*shown).dispute)},
	{"disputes", "AGENT", "the disputes of an agent, against it and opened by it, in order", (*shown).disputes},
	{"verification", "SESSION", "a verification of the last hour (internal endpoint only)",
		asked("/v1/verifications/", (*shown).verification)},
	{"verifications", "", "the last 100 verifications of the last hour (internal endpoint only)", (*shown).verifications},
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

func asked[Answer any](path string, print func(s *shown, a Answer) error) func(s *shown, id string) error {
	return func(s *shown, id string) error {
		var a Answer
		if err := s.node.get(s.c.Context(), path+url.PathEscape(id), &a); err != nil {
			return err
		}
		return print(s, a)
	}
}

// Show returns the command that shows what the node knows. It belongs below the command that runs the node.
func Show() *cobra.Command {
	s := shown{}
	var lines []string
	for _, k := range kinds {
		lines = append(lines, fmt.Sprintf("  %-23s %s", k.name+" "+k.id, k.about))
	}
	s.c = &cobra.Command{
		Use: "show KIND [ID]", Short: "Show agents, scores, signals, disputes and verifications, as the node knows them",
		Example: `  mediator reputation show agents
  mediator reputation show agent UhmwVNcb...:agent:worker-1
  mediator reputation show score ses_... --json > score.json
  mediator reputation show dispute dsp_5d41... --json > dispute.json   # for the arbiter`,
		Long: "Asks the node, and verifies nothing. The kinds:\n\n" + strings.Join(lines, "\n") + `

With --json an agent's reputation comes with its token, and a score with its token and with what it was computed from
except the receipts. mediator verify checks both, and computes the score again. The strategies that an agent has
revealed come from the node's internal endpoint alone.`,
		Args: func(_ *cobra.Command, args []string) error {
			_, err := kindOf(args)
			return err
		},
		RunE: func(_ *cobra.Command, args []string) error {
			k, err := kindOf(args)
			if err != nil {
				return err
			}
			return k.show(&s, append(args, "")[1])
		},
	}
	s.node.flags(s.c)
	s.c.Flags().StringVar(&s.owner, "owner", "",
		"with score, the owner's thumbprint, if several owners have a session with this id")
	cli.JSONFlag(s.c, &s.asJSON)
	return s.c
}

func (s *shown) agents(string) error {
	all, err := list(s.c.Context(), s.node, "/v1/reputation", url.Values{}, "agents",
		func(r accrual.Reputation) string { return r.AgentID })
	if err != nil {
		return err
	}
	return cli.PrintText(s.c, s.asJSON, all, func(w io.Writer) error { return drawAgents(w, all) })
}

func (s *shown) reputation(said json.RawMessage) error {
	var claims accrual.Claims
	if err := json.Unmarshal(said, &claims); err != nil {
		return fmt.Errorf("the node's answer holds no reputation: %w", err)
	}
	return cli.PrintText(s.c, s.asJSON, said, func(w io.Writer) error { return drawReputation(w, claims) })
}

func (s *shown) signal(said reputation.Signal) error   { return printSignal(s.c, s.asJSON, said) }
func (s *shown) dispute(said reputation.Dispute) error { return printDispute(s.c, s.asJSON, said) }

func (s *shown) disputes(agent string) error {
	all, err := list(s.c.Context(), s.node, "/v1/disputes", url.Values{"agent": {agent}}, "disputes",
		func(d reputation.Dispute) int64 { return d.Number })
	if err != nil {
		return err
	}
	return cli.PrintText(s.c, s.asJSON, all, func(w io.Writer) error { return drawDisputes(w, all) })
}

func (s *shown) verification(o verification.Overview) error {
	return cli.PrintText(s.c, s.asJSON, o, func(w io.Writer) error { return drawOverview(w, o) })
}

func (s *shown) verifications(string) error {
	var said struct {
		Verifications []verification.Overview `json:"verifications"`
	}
	if err := s.node.get(s.c.Context(), "/v1/verifications", &said); err != nil {
		return err
	}
	return cli.PrintText(s.c, s.asJSON, said.Verifications, func(w io.Writer) error {
		return drawOverviews(w, said.Verifications)
	})
}

// score asks for a score and, for --json, for the data to compute it again.
func (s *shown) score(of string) error {
	ctx, path := s.c.Context(), "/v1/sessions/"+url.PathEscape(of)+"/score"
	if evidence.IsHash(of) {
		path = "/v1/score/" + of
	}
	if s.owner != "" {
		path += "?" + url.Values{"owner": {s.owner}}.Encode()
	}
	var score archive.Score
	if err := s.node.get(ctx, path, &score); err != nil {
		return err
	}
	var claims autonomy.Claims
	if err := json.Unmarshal(score.Score, &claims); err != nil {
		return fmt.Errorf("the node's answer holds no score: %w", err)
	}
	if s.asJSON && claims.Closed && claims.Signals.Challenge.Issued > 0 && !s.node.public() {
		path := "/v1/sessions/" + url.PathEscape(claims.Session) + "/challenges?" +
			url.Values{"owner": {claims.Owner}}.Encode()
		if err := s.node.get(ctx, path, &score); err != nil {
			return err
		}
	}
	if s.asJSON && claims.BaselineHash != "" {
		if err := s.node.get(ctx, "/v1/baselines/"+claims.BaselineHash, &score.Baseline); err != nil {
			return err
		}
	}
	return cli.PrintText(s.c, s.asJSON, score, func(w io.Writer) error { return drawScore(w, claims) })
}
