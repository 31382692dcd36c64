package node

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/erc8004"
)

// publishing says what is published in the registries of ERC-8004.
type publishing struct {
	entry  string
	client string
	revoke int64
}

func (p *publishing) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&p.entry, "erc8004", "", "with agent or score, the identity registry, or the agent in it")
	f.StringVar(&p.client, "client", "", "with --erc8004, the address that gives the feedback")
	f.Int64Var(&p.revoke, "revoke", 0, "with --erc8004, the index of the client's feedback to revoke")
}

func (p *publishing) check(kind string) error {
	switch {
	case p.entry == "" && (p.client != "" || p.revoke != 0):
		return cli.Usagef("--client and --revoke go with --erc8004")
	case p.entry != "" && kind != "agent" && kind != "score":
		return cli.Usagef("--erc8004 publishes an agent or a score")
	case p.client != "" && p.revoke != 0:
		return cli.Usagef("--client gives feedback, and --revoke ends it: give one of them")
	}
	return nil
}

// call returns the call that publishes what the node answered.
func (p *publishing) call(answer any) (erc8004.Call, error) {
	entry, err := erc8004.ParseAgent(p.entry)
	if err != nil {
		return erc8004.Call{}, err
	}
	if p.revoke != 0 {
		return entry.Revoke(p.revoke)
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return erc8004.Call{}, err
	}
	agent, said, err := statement(raw)
	if err != nil {
		return erc8004.Call{}, fmt.Errorf("the node's answer cannot be published: %w", err)
	}
	if p.client == "" {
		return entry.Register(agent.String())
	}
	return entry.Feedback(p.client, said)
}

// statement returns what an answer's token says, which is not verified.
func statement(answer []byte) (accrual.Agent, erc8004.Statement, error) {
	var has struct{ Token string }
	if err := json.Unmarshal(answer, &has); err != nil {
		return accrual.Agent{}, erc8004.Statement{}, err
	}
	if typ := archive.TypeOf(has.Token); typ == autonomy.Kind.Typ {
		c, err := evidence.UnverifiedClaims(autonomy.Kind, has.Token)
		return accrual.Agent{Owner: c.Owner, Subject: c.Agent},
			erc8004.Statement{Token: has.Token, Type: typ, Score: c.Composite, Issued: c.IssuedAt}, err
	}
	c, err := evidence.UnverifiedClaims(accrual.Kind, has.Token)
	if err == nil && len(c.ScoreHistory) == 0 && !c.Disputed {
		err = errors.New("the agent has no scored session yet")
	}
	return accrual.Agent{Owner: c.Owner, Subject: c.Agent},
		erc8004.Statement{Token: has.Token, Type: accrual.Kind.Typ, Score: c.CurrentScore, Issued: c.IssuedAt}, err
}
