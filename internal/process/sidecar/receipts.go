package sidecar

import (
	"context"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/proxy/receipts"
)

const closeReceiptsTimeout = 10 * time.Second

// openReceipts makes the keeper of interaction receipts, if there are any. It needs the pinned root keys.
func (p *sidecar) openReceipts(ctx context.Context) (err error) {
	if p.interaction == nil {
		return nil
	}
	p.receipts, err = receipts.New(ctx, receipts.Options{
		Issuer: p.interaction, Ledger: p.record, Owner: p.owner(), Agent: p.config.Receipts.Subject,
		Runtime: p.name, Now: time.Now, Log: p.Log,
	})
	return err
}

// owner returns the name of this sidecar's owner in receipts. It needs the pinned root keys.
func (p *sidecar) owner() string {
	for _, r := range p.Roots {
		if r.Purpose == evidence.PurposeSignerCertificate {
			return interaction.Owner(r.Public)
		}
	}
	return ""
}

// closeReceipts closes the chains of open sessions, and sends what it can. No calls are served any more.
func (p *sidecar) closeReceipts() {
	if p.receipts == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeReceiptsTimeout)
	defer cancel()
	p.receipts.Close(ctx)
	if p.sender != nil {
		p.sender.Drain(ctx)
	}
}
