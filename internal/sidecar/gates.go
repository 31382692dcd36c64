package sidecar

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy"
)

// GateSecret makes the gate's secret of what was read, or of chance where nothing was: that one lives in memory alone.
func GateSecret(text string) (evidence.Secret, error) {
	if text != "" {
		return evidence.NewSecret([]byte(text))
	}
	var b [config.MinGateSecret]byte
	_, _ = rand.Read(b[:]) // never fails; see evidence.NewID
	return evidence.NewSecret(b[:])
}

// NewGate makes the gate that a deployment's manifest asks for.
func NewGate(c config.Gate, secret evidence.Secret, v *evidence.Verifier, strict *policy.Strict) (*gate.Gate, error) {
	name, difficulty := cmp.Or(c.Issuer, "mediator-gate"), cmp.Or(c.Difficulty, "standard")
	challenges, err := challenge.NewIssuer(secret, challenge.Options{
		Issuer: name, Audience: name, Lifetime: strict.MaxChallengeAge, Difficulty: challenge.Difficulty(difficulty), Now: time.Now,
	})
	if err != nil {
		return nil, err
	}
	return gate.New(gate.Options{Challenges: challenges, Secret: secret, Issuer: name, Verifier: v, Strict: strict})
}

// localGate lets the proxy use the mediator's own gate. proxy and gate know nothing of each other: they meet here.
type localGate struct{ g *gate.Gate }

func (l localGate) Challenge(ctx context.Context, b evidence.Binding) (challenge.Challenge, error) {
	return l.g.Challenge(ctx, b)
}

// Admit leaves the keys to the caller, which consumes them with the capability in one durable transaction before the first byte
// goes out: until then the capability has not left this process.
func (l localGate) Admit(ctx context.Context, e evidence.Envelope, b evidence.Binding) (proxy.Admission, error) {
	var keys []ledger.Key
	a, err := l.g.Admit(ctx, gate.AdmitRequest{Envelope: e, Binding: b}, func(_ context.Context, k ...ledger.Key) error {
		keys = k
		return nil
	})
	if err != nil {
		return proxy.Admission{Checks: a.Checks}, err
	}
	return proxy.Admission{Capability: a.Capability, CapabilityID: a.Claims.ID, Keys: keys, Checks: a.Checks}, nil
}

func (l localGate) Authorize(ctx context.Context, p proxy.Posting) (proxy.Authorization, error) {
	a, err := l.g.Authorize(ctx, gate.AuthorizeRequest{
		Capability: p.Capability, RequestProof: p.RequestProof, Binding: p.Binding, AccessTokenHash: p.AccessTokenHash,
	})
	return proxy.Authorization{Keys: a.Keys, Checks: a.Checks}, err
}

func (localGate) Presents() bool { return false }

// remoteGate is an API that takes part: it verifies the request proof itself, when the call arrives.
type remoteGate struct{ c *gate.Client }

func (r remoteGate) Challenge(ctx context.Context, b evidence.Binding) (challenge.Challenge, error) {
	return r.c.Challenge(ctx, b)
}

func (r remoteGate) Admit(ctx context.Context, e evidence.Envelope, b evidence.Binding) (proxy.Admission, error) {
	a, err := r.c.Admit(ctx, gate.AdmitRequest{Envelope: e, Binding: b})
	if err != nil {
		return proxy.Admission{}, err
	}
	return proxy.Admission{
		Capability: a.Capability, CapabilityID: a.CapabilityID,
		Checks: []ledger.Check{{Name: admin.CheckByAPI, OK: true, Detail: "the API gave a capability for it, and answers for what it verified"}},
	}, nil
}

// Authorize has nothing to verify that the API does not; the mediator itself never sends one capability twice.
func (remoteGate) Authorize(_ context.Context, p proxy.Posting) (proxy.Authorization, error) {
	return proxy.Authorization{Keys: []ledger.Key{{Kind: "capability", ID: p.CapabilityID, Expires: time.Now().Add(evidence.CapabilityKind.MaxLifetime)}}}, nil
}

func (remoteGate) Presents() bool { return true }
