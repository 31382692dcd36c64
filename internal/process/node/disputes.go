package node

import (
	"context"
	"time"

	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/signer"
)

func (p *process) openDisputes(key signer.Key, o signer.Options) (err error) {
	c := p.config.Disputes
	if c == nil {
		return nil
	}
	p.disputes = &reputation.Disputes{
		Rules: c.Rules(), Registered: p.registered, Arbiter: c.ArbiterRoot, Audience: p.config.Audience,
	}
	// They are about the past, and do not change.
	o.Lifetime = dispute.ResolutionKind.MaxLifetime
	if p.disputes.Resolution, err = signer.New(dispute.ResolutionKind, key, o); err != nil {
		return err
	}
	o.Lifetime = dispute.RootKind.MaxLifetime
	p.disputes.Root, err = signer.New(dispute.RootKind, key, o)
	return err
}

// registered returns when an agent passed a verification for the first time.
func (p *process) registered(ctx context.Context, agent accrual.Agent) (since time.Time, ok bool, err error) {
	return p.verifier.store.Registered(ctx, agent.String())
}
