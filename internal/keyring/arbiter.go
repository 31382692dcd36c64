package keyring

import (
	"context"
	"time"

	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/signer"
)

// Decide signs an arbiter's decision about a dispute for one node. The issuer is the key itself: the node pins it by
// nothing else.
func Decide(ctx context.Context, arbiter RootKey, audience string, now func() time.Time, d dispute.Decision) (string,
	error) {
	issuer, err := signer.New(dispute.DecisionKind, arbiter, arbiter.options(signer.Options{
		Issuer: arbiter.KeyID(), Audience: audience, Lifetime: dispute.DecisionLifetime, Now: now,
	}))
	if err != nil {
		return "", err
	}
	token, _, err := issuer.Sign(ctx, d)
	return token, err
}
