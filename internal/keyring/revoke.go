package keyring

import (
	"context"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/signer"
)

// renewList signs the revocation list again, with the entries in add and without ended ones, which the history has. It
// returns the entries.
//
// An entry stays until it ends, even if the bundle has no certificate for its key any more: who delivers a bundle can
// put the old certificate back. It stays for longer while the bundle has one, which was renewed. Only a list over
// longList gets shorter: it loses what [shortened] removes.
func (e *Edit) renewList(ctx context.Context, add []evidence.Revocation) ([]evidence.Revocation, error) {
	entries := append([]evidence.Revocation{}, add...)
	old, _ := e.trust.Revocations()
	for _, r := range old.Revoked {
		again := slices.IndexFunc(add, func(n evidence.Revocation) bool { return n.Kind == r.Kind && n.ID == r.ID })
		switch {
		case again >= 0:
			entries[again].Expires = max(entries[again].Expires, r.Expires)
		case e.Options.Now().Before(time.Unix(r.Expires, 0)) || r.Kind == evidence.RevokedKey && e.certifies(r.ID):
			entries = append(entries, r)
		}
	}
	token, err := e.signList(ctx, entries, e.Options)
	if err != nil {
		return nil, err
	}
	if len(token) <= longList {
		e.b.Revocations = token
		return entries, nil
	}
	o := e.Options
	if o.Now().Unix() <= old.IssuedAt { // of two lists of one second, verifiers do not take the one with less in it
		o.Now = func() time.Time { return time.Unix(old.IssuedAt+1, 0) }
	}
	entries = shortened(entries, len(add))
	if token, err = e.signList(ctx, entries, o); err != nil {
		return nil, err
	}
	artifact := func(r evidence.Revocation) bool { return r.Kind == evidence.RevokedArtifact }
	version := func(r evidence.Revocation) bool { return evidence.KeyVersion(r.ID) > 0 }
	switch {
	case len(token) > longList && slices.ContainsFunc(add, artifact):
		return nil, refusal.New("trust_malformed",
			"the revocation list is nearly full, and takes no more artifacts: revoke the keys that signed them")
	case len(token) > fullList && slices.ContainsFunc(add, version):
		return nil, refusal.New("trust_malformed", "the revocation list has no room for more key versions: "+
			"revoke the key by its name, which revokes all of its versions")
	case len(token) > evidence.MaxRevocations:
		return nil, refusal.New("trust_malformed", "the revocation list is full")
	}
	e.b.Revocations = token
	return entries, nil
}

// shortened cuts the reasons of all entries but the new ones, which come first, and the entries of key versions
// whose key is revoked by its name for as long. The history has both.
func shortened(entries []evidence.Revocation, added int) []evidence.Revocation {
	names := make(map[string]int64)
	for i, r := range entries {
		if i >= added {
			entries[i].Reason = "-" // no entry is without one
		}
		if r.Kind == evidence.RevokedKey && evidence.KeyVersion(r.ID) == 0 {
			names[r.ID] = r.Expires
		}
	}
	return slices.DeleteFunc(entries, func(r evidence.Revocation) bool {
		return r.Kind == evidence.RevokedKey && evidence.KeyVersion(r.ID) > 0 &&
			slices.ContainsFunc(evidence.RevocableNames(r.ID),
				func(name string) bool { return r.Expires <= names[name] })
	})
}

// A revocation list of longList bytes takes no more artifacts, and one of fullList no more key versions: keys can be
// revoked by their names at any time.
const (
	longList = evidence.MaxRevocations / 4 * 3
	fullList = evidence.MaxRevocations / 16 * 15
)

func (e *Edit) signList(ctx context.Context, entries []evidence.Revocation, o signer.Options) (string, error) {
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

// Revoke is a [Registry.Edit] with nothing but [Edit.Revoke].
func (r *Registry) Revoke(ctx context.Context, add []evidence.Revocation,
	unknown func(kid string)) (all []evidence.Revocation, err error) {
	_, err = r.Edit(ctx, func(e *Edit) (err error) {
		all, err = e.Revoke(ctx, add, unknown)
		return err
	})
	return all, err
}

// Revoke adds entries to the bundle's revocation list, and returns all entries. The history gets a list of only the
// new ones, which keeps their time. Revoke calls unknown for each key id without a certificate in the bundle.
func (e *Edit) Revoke(ctx context.Context, add []evidence.Revocation,
	unknown func(kid string)) ([]evidence.Revocation, error) {
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
			return nil, err
		}
		if len(added) > evidence.MaxRevocations { // no verifier would read the history
			return nil, refusal.New("trust_malformed", "%d entries are too many at once: revoke fewer at a time",
				len(add))
		}
		e.revocations = []string{added}
	}
	return e.renewList(ctx, add)
}

func (e *Edit) certifies(id string) bool {
	for kid := range e.certified {
		if slices.Contains(evidence.RevocableNames(kid), id) {
			return true
		}
	}
	return false
}

// Revokes reports whether the revocation list has an entry.
func (e *Edit) Revokes(kind, id string) bool {
	list, _ := e.trust.Revocations()
	return slices.ContainsFunc(list.Revoked, func(r evidence.Revocation) bool { return r.Kind == kind && r.ID == id })
}

// ListDue reports whether the bundle has a revocation list that is older than age.
func (e *Edit) ListDue(age time.Duration) bool {
	list, ok := e.trust.Revocations()
	return ok && e.Options.Now().After(time.Unix(list.IssuedAt, 0).Add(age))
}
