package keyring

import (
	"context"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
)

// revoke signs the revocation list again, with the entries in add and without those that have ended. The last list with an
// entry that has ended goes to the history, because records are older than what is still valid. revoke returns the token and its entries.
func (e *bundleEdit) revoke(ctx context.Context, add []evidence.Revocation) (string, []evidence.Revocation, error) {
	entries := append([]evidence.Revocation{}, add...)
	old, _ := e.trust.Revocations()
	ended := false
	for _, r := range old.Revoked {
		again := func(n evidence.Revocation) bool { return n.Kind == r.Kind && n.ID == r.ID }
		switch {
		case slices.ContainsFunc(add, again):
		case e.Options.Now().Before(time.Unix(r.Expires, 0)):
			entries = append(entries, r)
		default:
			ended = true
		}
	}
	if ended {
		if err := e.rememberRevocations(); err != nil {
			return "", nil, err
		}
	}
	issuer, err := signer.New(evidence.RevocationListKind, e.Key, e.Options)
	if err != nil {
		return "", nil, err
	}
	token, _, err := issuer.Sign(ctx, evidence.RevocationList{Revoked: entries})
	return token, entries, err
}

// Revoke adds entries to the bundle's revocation list, signs the list again, and returns all of its entries. It calls
// unknown for each key id in add for which the bundle has no certificate.
func (r *Registry) Revoke(ctx context.Context, add []evidence.Revocation, unknown func(kid string)) (all []evidence.Revocation, err error) {
	err = r.editBundle(func(e *bundleEdit) (err error) {
		for _, n := range add {
			if n.Kind == evidence.RevokedKey && !e.certifies(n.ID) {
				unknown(n.ID)
			}
		}
		e.b.Revocations, all, err = e.revoke(ctx, add)
		return err
	})
	return all, err
}

// certifies reports whether the bundle has a certificate for a key, by its kid or by its name.
func (e *bundleEdit) certifies(id string) bool {
	return slices.ContainsFunc(e.trust.Certified(), func(c evidence.Certified) bool {
		return evidence.MatchKeyID([]string{id}, c.Certificate.SubjectKeyID)
	})
}

// revokes reports whether the bundle's list names an id.
func (e *bundleEdit) revokes(kind, id string) bool {
	list, _ := e.trust.Revocations()
	return slices.ContainsFunc(list.Revoked, func(r evidence.Revocation) bool { return r.Kind == kind && r.ID == id })
}
