package keyring

import (
	"context"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/signer"
)

// revoke signs the revocation list again, with the entries in add and without ended ones, which the history has. It
// returns the token and its entries. From a list that gets too long it also drops retired versions, which are refused
// anyway.
func (e *bundleEdit) revoke(ctx context.Context, add []evidence.Revocation) (string, []evidence.Revocation, error) {
	entries := append([]evidence.Revocation{}, add...)
	old, _ := e.trust.Revocations()
	for _, r := range old.Revoked {
		again := func(n evidence.Revocation) bool { return n.Kind == r.Kind && n.ID == r.ID }
		if !slices.ContainsFunc(add, again) && e.Options.Now().Before(time.Unix(r.Expires, 0)) {
			entries = append(entries, r)
		}
	}
	token, err := e.signList(ctx, entries, e.Options)
	if err != nil || len(token) <= longList {
		return token, entries, err
	}
	o := e.Options
	if o.Now().Unix() <= old.IssuedAt { // of two lists of one second, verifiers do not take the one with less in it
		o.Now = func() time.Time { return time.Unix(old.IssuedAt+1, 0) }
	}
	entries = slices.DeleteFunc(entries, func(r evidence.Revocation) bool {
		_, retired := e.trust.Retired(r.ID)
		return r.Kind == evidence.RevokedKey && retired
	})
	token, err = e.signList(ctx, entries, o)
	artifact := func(r evidence.Revocation) bool { return r.Kind == evidence.RevokedArtifact }
	if len(token) > longList && slices.ContainsFunc(add, artifact) {
		return "", nil, refusal.New("trust_malformed",
			"the revocation list is nearly full, and takes no more artifacts: revoke the keys that signed them")
	}
	return token, entries, err
}

// A revocation list of longList bytes takes no more artifacts, so that keys can be revoked at any time.
const longList = evidence.MaxRevocations / 4 * 3

func (e *bundleEdit) signList(ctx context.Context, entries []evidence.Revocation, o signer.Options) (string, error) {
	issuer, err := signer.New(evidence.RevocationListKind(), e.Key, o)
	if err != nil {
		return "", err
	}
	token, _, err := issuer.Sign(ctx, evidence.RevocationList{Revoked: entries})
	return token, err
}

// historyAudience is the audience of the lists in the history. No policy names it: such a list lacks all earlier
// entries, and in the bundle would undo them.
const historyAudience = "trust-history"

// Revoke adds entries to the bundle's revocation list, signs it again, and returns all entries. The history gets a list
// of only the new entries, which keeps their time. Revoke calls unknown for each key id in add without a certificate in
// the bundle.
func (r *Registry) Revoke(ctx context.Context, add []evidence.Revocation,
	unknown func(kid string)) (all []evidence.Revocation, err error) {
	err = r.editBundle(ctx, func(e *bundleEdit) (err error) {
		for _, n := range add {
			if n.Kind == evidence.RevokedKey && !e.certifies(n.ID) {
				unknown(n.ID)
			}
		}
		if len(add) > 0 { // first: verifiers take no list that is older than the bundle's
			o := e.Options
			o.Audience = historyAudience
			added, err := e.signList(ctx, add, o)
			if err != nil {
				return err
			}
			e.revocations = []string{added}
		}
		e.b.Revocations, all, err = e.revoke(ctx, add)
		return err
	})
	return all, err
}

// certifies reports whether the bundle has a certificate for a key, by its kid or by its name.
func (e *bundleEdit) certifies(id string) bool {
	for kid := range e.certified {
		if evidence.MatchKeyID([]string{id}, kid) {
			return true
		}
	}
	return false
}

func (e *bundleEdit) revokes(kind, id string) bool {
	list, _ := e.trust.Revocations()
	return slices.ContainsFunc(list.Revoked, func(r evidence.Revocation) bool { return r.Kind == kind && r.ID == id })
}
