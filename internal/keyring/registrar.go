package keyring

import (
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// OpenRules verifies a registrar's rules with the pinned key of the auditor.
func OpenRules(auditor evidence.Root, token string, now func() time.Time) (evidence.RegistrarRules, error) {
	v, err := verifier(auditor, evidence.SignerPolicy{}, now)
	if err != nil {
		return evidence.RegistrarRules{}, err
	}
	kind := evidence.RegistrarRulesKind()
	o, err := evidence.Open(v, kind, token, evidence.Expected{
		Issuers: []string{auditor.KeyID}, Audiences: []string{evidence.AudienceRegistrar},
		KeyIDs: []string{auditor.KeyID}, MaxAge: kind.MaxLifetime,
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
