package nodetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/manifest"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/gatetest"
)

// Trust is what a node in another process needs to trust a kit.
type Trust struct {
	Owner  string
	Roots  []evidence.Root
	Bundle evidence.Bundle
	Now    time.Time // the process's clock stands still
}

// TrustOf returns the trust in a kit at its clock's time.
func TrustOf(t testing.TB, k *gatetest.Kit) Trust {
	t.Helper()
	k.Observe(t)
	of := Trust{Owner: k.Owner(t), Now: k.Clock.Now()}
	for _, purpose := range []string{evidence.PurposeSignerCertificate, evidence.PurposeDeploymentCertificate} {
		key := k.Key(t, purpose)
		of.Roots = append(of.Roots, evidence.Root{KeyID: key.KeyID(), Public: key.Public(), Purpose: purpose})
	}
	k.Speak(t)
	of.Bundle.Certificates = []string{k.Certificates[evidence.PurposeInteraction],
		k.Certificates[evidence.PurposeStatement]}
	return of
}

// Options are the options of a node that trusts the owner, without store and log. Its key lives in its process.
func (of Trust) Options() (o reputation.Options, err error) {
	m, err := manifest.Parse(configs.Manifest())
	if err != nil {
		return o, err
	}
	strict, err := m.Strict()
	if err != nil {
		return o, err
	}
	past, err := evidence.NewPastTrust(of.Roots, of.Bundle, evidence.History{}, strict.Signers)
	if err != nil {
		return o, err
	}
	trust, err := evidence.NewTrust(of.Roots, of.Bundle, strict.Signers)
	if err != nil {
		return o, err
	}
	o.Now = func() time.Time { return of.Now }
	live, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: o.Now})
	if err != nil {
		return o, err
	}
	callers := strict.Interaction
	callers.Audiences = []string{Audience}
	o.Believed = reputation.Believed{Hosts: []string{Host}, Owners: []reputation.Owner{{
		ID: of.Owner, Name: "us", Past: past, Live: live, Receipts: strict.Interaction, Callers: callers,
		Statements: Statements(),
	}}}
	key, err := custody.NewMemory("appraiser-key")
	if err != nil {
		return o, fmt.Errorf("nodetest: %w", err)
	}
	signs := signer.Options{Issuer: "appraiser", Audience: "relying-party", Lifetime: 10 * time.Minute, Now: o.Now}
	if o.Score, err = signer.New(autonomy.Kind, key, signs); err != nil {
		return o, err
	}
	if o.Reputation, err = signer.New(accrual.Kind, key, signs); err != nil {
		return o, err
	}
	o.Disputes = &reputation.Disputes{Rules: dispute.DefaultRules, Key: key, Audience: Audience,
		Registered: Registered(of.Now)}
	o.Disputes.Resolution, err = signer.New(dispute.ResolutionKind, key, signs)
	return o, err
}
