package sidecar

import (
	"context"
	"fmt"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/node"
	"github.com/actionproof/mediator/proxy/reputations"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/client"
	"github.com/actionproof/mediator/signer"
)

// addObserver makes the signers of two roles. The observer signs receipts, and tokens that name the calling agent to
// the node. The speaker signs the documents that the agent publishes at the node.
func (p *sidecar) addObserver() (err error) {
	c := p.config
	if c.Keys.InteractionReceipt == nil {
		return nil
	}
	role := *c.Keys.InteractionReceipt
	key, err := p.AddRole(interaction.Kind.Purpose, role)
	if err != nil {
		return err
	}
	o := signer.Options{Issuer: role.Issuer, Audience: c.Audience, Lifetime: interaction.Lifetime, Now: time.Now}
	if p.interaction, err = signer.New(interaction.Kind, key, o); err != nil || c.Reputation == nil {
		return err
	}
	o.Audience, o.Lifetime = c.Reputation.Audience, interaction.CallerLifetime
	if p.callers, err = signer.New(interaction.CallerKind, key, o); err != nil || c.Keys.AgentStatement == nil {
		return err
	}
	role = *c.Keys.AgentStatement
	if key, err = p.AddRole(interaction.StatementKind.Purpose, role); err != nil {
		return err
	}
	o = signer.Options{Issuer: role.Issuer, Audience: c.Audience, Lifetime: interaction.Lifetime, Now: time.Now}
	p.speaker, err = signer.New(interaction.StatementKind, key, o)
	return err
}

func (p *sidecar) openNode() {
	c := p.config
	if c.Reputation == nil {
		return
	}
	over, base := p.Client(c.Reputation.Peer)
	to := client.New(base, over)
	p.sender = client.NewSender(to, p.record, time.Now, p.Log)
	at := node.Options{Client: to, Issuer: p.callers, Owner: p.owner(), Agent: c.Receipts.Subject}
	if p.speaker != nil {
		at.Speaker = p.speaker
	}
	p.node = node.New(at)
	p.reputations = reputations.New(reputations.Options{
		Ask: func(ctx context.Context) (string, error) { return p.askReputation(ctx, to) }, Accepts: p.accepts,
		Now: time.Now, Log: p.Log, Metrics: p.Metrics,
	})
	p.sender.Register(p.Metrics)
}

// askReputation asks the node for a token of the agent that the control plane can verify.
func (p *sidecar) askReputation(ctx context.Context, node *client.Client) (string, error) {
	if now := p.current.Load(); now != nil {
		both, err := now.accepted.get(ctx)
		if err != nil {
			return "", err
		}
		ctx = evidence.WithAccepted(ctx, both.Node)
	}
	return node.Reputation(ctx, accrual.Agent{Owner: p.owner(), Subject: p.config.Receipts.Subject}.String())
}

// accepts reports whether the node's key version kid is neither revoked nor retired.
func (p *sidecar) accepts(kid string) bool {
	now := p.current.Load()
	return now == nil || now.Trust.Verifier.Knows(kid)
}

func (s *snapshot) Reputation(ctx context.Context) *admin.Reputation {
	if s.Strict.Autonomy.MaxAge == 0 {
		return nil
	}
	if s.process.reputations == nil {
		return &admin.Reputation{Code: reputationMissing, Reason: "the configuration names no node (reputation)"}
	}
	agent := s.Config.Receipts.Subject
	known := s.process.reputations.State(ctx, s.Strict.Autonomy.MaxAge)
	out := &admin.Reputation{Agent: agent}
	if known.Token == "" {
		out.Code, out.Reason = reputationMissing, whyMissing(known, s.Strict.Autonomy.MaxAge)
		return out
	}
	out.Signed, out.Until = &known.Issued, &known.Until
	o, err := policy.OpenReputation(s.Trust.Verifier, s.Strict, known.Token, agent)
	if err != nil {
		out.Code, out.Reason = problem.DetailsOf(err).Code, err.Error()
		return out
	}
	out.Tier = o.Claims().Tier
	return out
}

const reputationMissing = "reputation_missing"

func whyMissing(known reputations.State, maxAge time.Duration) string {
	switch {
	case known.Failed != nil:
		return "the node gives none: " + known.Failed.Error()
	case known.Issued.IsZero():
		return "the node has not answered yet"
	}
	return fmt.Sprintf("the node gives one that was signed at %s, and the manifest believes none older than %s: set "+
		"the lifetime of keys.appraiser in the node's configuration to that", known.Issued.UTC().Format(time.RFC3339),
		maxAge)
}
