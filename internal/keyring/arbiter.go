package keyring

import (
	"context"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/signer"
)

// Decide signs an arbiter's decision about a dispute for one node. The issuer is the key itself: the node pins it by
// nothing else.
func Decide(ctx context.Context, arbiter RootKey, audience string, now func() time.Time, d dispute.Decision) (string,
	error) {
	return signOffline(ctx, dispute.DecisionKind, arbiter, audience, now, d)
}

// StateTime signs an operator's statement for one node that it is now, by which the node sets its log's time back.
func StateTime(ctx context.Context, operator RootKey, audience string, now func() time.Time) (string, error) {
	return signOffline(ctx, dispute.ClockKind, operator, audience, now, dispute.Clock{})
}

func signOffline[C any](ctx context.Context, kind evidence.Kind[C], key RootKey, audience string, now func() time.Time,
	claims C) (string, error) {
	issuer, err := signer.New(kind, key, key.options(signer.Options{
		Issuer: key.KeyID(), Audience: audience, Lifetime: kind.MaxLifetime, Now: now,
	}))
	if err != nil {
		return "", err
	}
	token, _, err := issuer.Sign(ctx, claims)
	return token, err
}
