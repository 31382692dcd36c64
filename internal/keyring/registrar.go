package keyring

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
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
func (r *Registry) Forget(ctx context.Context, gone func(keyName string) bool) (forgotten int, err error) {
	var e *bundleEdit
	err = r.editBundle(ctx, func(edit *bundleEdit) error {
		e = edit
		e.b.Certificates = slices.DeleteFunc(slices.Clone(e.before), func(token string) bool {
			return gone(evidence.KeyName(subject(token)))
		})
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(e.before) - len(e.b.Certificates), e.stopped
}

// KeyNames returns the names of the certified keys, without versions. A missing bundle has none.
func (r *Registry) KeyNames() (map[string]bool, error) {
	b, _, err := archive.ReadAnyBundle(r.Bundle)
	names := make(map[string]bool)
	for _, token := range b.Certificates {
		names[evidence.KeyName(subject(token))] = true
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return names, err
}

// Revoked returns the entries of the bundle's revocation list. A missing bundle has none.
func (r *Registry) Revoked() ([]evidence.Revocation, error) {
	list, err := r.list()
	return list.Revoked, err
}

// ListDue reports whether the bundle's revocation list is older than age.
func (r *Registry) ListDue(age time.Duration) (bool, error) {
	list, err := r.list()
	return list.ID != "" && r.Options.Now().After(time.Unix(list.IssuedAt, 0).Add(age)), err
}

// list is empty if the bundle has none. Each change of the bundle verifies it.
func (r *Registry) list() (list evidence.RevocationList, err error) {
	b, _, err := archive.ReadAnyBundle(r.Bundle)
	if errors.Is(err, fs.ErrNotExist) || err == nil && b.Revocations == "" {
		return list, nil
	}
	if err == nil {
		list, err = evidence.UnverifiedClaims(evidence.RevocationListKind(), b.Revocations)
	}
	return list, err
}
