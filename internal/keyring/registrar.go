package keyring

import (
	"context"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
)

// SignRules signs a registrar's rules with the auditor's key.
func SignRules(ctx context.Context, auditor RootKey, rules evidence.RegistrarRules, lifetime time.Duration,
	now func() time.Time) (string, error) {
	issuer, err := signer.New(evidence.RegistrarRulesKind(), auditor, auditor.options(signer.Options{
		Issuer: auditor.KeyID(), Audience: evidence.AudienceRegistrar, Lifetime: lifetime, Now: now,
	}))
	if err != nil {
		return "", err
	}
	token, _, err := issuer.Sign(ctx, rules)
	return token, err
}

// OpenRules verifies a registrar's rules with the pinned key of the auditor.
func OpenRules(auditor evidence.Root, token string, now func() time.Time) (evidence.RegistrarRules, error) {
	kind := evidence.RegistrarRulesKind()
	trust, err := evidence.NewTrust([]evidence.Root{auditor}, evidence.Bundle{}, evidence.SignerPolicy{})
	if err != nil {
		return evidence.RegistrarRules{}, err
	}
	v, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: now})
	if err != nil {
		return evidence.RegistrarRules{}, err
	}
	o, err := evidence.Open(v, kind, token, evidence.Expected{
		Issuers: []string{auditor.KeyID}, Audiences: []string{evidence.AudienceRegistrar},
		KeyIDs: []string{auditor.KeyID},
		MaxAge: kind.MaxLifetime,
	})
	return o.Claims(), err
}

// Forget moves the certificates of all keys whose names gone reports into the history, where they end now. It returns
// their number.
func (e *Edit) Forget(gone func(keyName string) bool) int {
	stay := slices.DeleteFunc(slices.Clone(e.b.Certificates), func(token string) bool {
		return gone(evidence.KeyName(subject(token)))
	})
	forgotten := len(e.b.Certificates) - len(stay)
	e.b.Certificates = stay
	return forgotten
}

// KeyNames returns the names of the certified keys, without versions.
func (e *Edit) KeyNames() map[string]bool {
	names := make(map[string]bool)
	for kid := range e.certified {
		names[evidence.KeyName(kid)] = true
	}
	return names
}
