package keyring

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/ledger"
)

// States of a key version, by the trust bundle.
const (
	Certified    = "certified"
	NotCertified = "not certified" // yet
	Ended        = "ended"         // its certificate has, and no other one was signed
	Retired      = "retired"
	StateRevoked = "revoked"
)

// Version is what is known of one version of a key: of a version that a process publishes, what the process says; by a
// trust bundle, what the key registry has signed. What is not known is nil or empty.
type Version struct {
	Purpose    string     `json:"purpose"`
	KeyID      string     `json:"keyId"`
	Issuer     string     `json:"issuer"`
	Custody    string     `json:"keyCustody"`
	Exportable bool       `json:"keyExportable"`
	Process    string     `json:"process,omitempty"` // where it was asked; empty if no process publishes the version
	Created    *time.Time `json:"created,omitempty"`
	Signs      *bool      `json:"signs,omitempty"` // whether the process signs with it now
	State      string     `json:"state,omitempty"`
	Until      *time.Time `json:"certifiedUntil,omitempty"` // the end of its certificate
	Revocation *Revoked   `json:"revocation,omitempty"`     // nil if it is not revoked
	Use        *Use       `json:"use,omitempty"`            // nil if no record was asked

	public ed25519.PublicKey
}

// Revoked says when and why the registry revoked a version, by the revocation that came first.
type Revoked struct {
	At     *time.Time `json:"time,omitempty"` // nil if the history does not say
	Reason string     `json:"reason"`
}

// Use is what records say of a version: the record's own word.
type Use struct {
	Since time.Time  `json:"since"`           // nothing before was counted
	First *time.Time `json:"first,omitempty"` // nil if there is no signature
	Last  *time.Time `json:"last,omitempty"`
	Posts *int64     `json:"posts,omitempty"` // nil for a key that signs nothing of a post, and where they are not known
}

// AddUse adds to versions what records have counted of them, summed up over all the records.
func AddUse(versions []Version, records []ledger.KeyUses) {
	for i := range versions {
		v := &versions[i]
		use := Use{}
		if v.Purpose != evidence.PurposeInteraction {
			use.Posts = new(int64)
		}
		for _, r := range records {
			if r.Since.After(use.Since) { // of what was before, not every record knows
				use.Since = r.Since
			}
			for _, k := range r.Keys {
				if k.KeyID != v.KeyID {
					continue
				}
				if use.First == nil || k.First.Before(*use.First) {
					use.First = &k.First
				}
				if use.Last == nil || k.Last.After(*use.Last) {
					use.Last = &k.Last
				}
				if use.Posts != nil {
					*use.Posts += k.Posts
				}
			}
		}
		v.Use = use.since(v.Created)
	}
}

// since returns the use without what it cannot say of a key that was made then. A record counts by key id, and an
// earlier key can have had the same one: keys in memory are made anew at each start.
func (u Use) since(made *time.Time) *Use {
	if made == nil || u.First == nil || !u.First.Before(made.Truncate(time.Second)) {
		return &u
	}
	u.First, u.Posts = nil, nil
	if u.Last.Before(made.Truncate(time.Second)) {
		u.Last = nil
	}
	return &u
}

// VersionsOf lists the versions that a process at an address publishes. Of what a file says it leaves out which version
// signs, because that may be otherwise by now.
func VersionsOf(at string, roles []daemon.RoleDocument) []Version {
	_, isFile := PublishedFile(at)
	var all []Version
	for _, r := range roles {
		for _, k := range r.Keys {
			v := Version{Purpose: r.Purpose, KeyID: k.KeyID, Issuer: r.Issuer, Custody: r.KeyCustody,
				Exportable: r.KeyExportable, Process: at}
			v.public, _ = k.Key.(ed25519.PublicKey)
			if made, ok := r.Made[k.KeyID]; ok {
				v.Created = &made
			}
			if signs := r.Signs == k.KeyID; !isFile {
				v.Signs = &signs
			}
			all = append(all, v)
		}
	}
	return all
}

// Books are a trust bundle and the history beside it, verified with the pinned key of the registry.
type Books struct {
	trust   *evidence.Trust
	past    []evidence.SignerCertificate   // of the history
	revoked map[string]evidence.Revocation // by kind and id: what was ever revoked
	since   map[string]time.Time           // by kind and id, as far as the history says
	lists   []evidence.RevocationList      // of the history and the bundle
	now     time.Time
}

// ReadBooks reads a trust bundle, and its history if there is one. registry names the public file of the key registry.
func ReadBooks(registry, bundle string, now time.Time) (*Books, error) {
	raw, err := files.Read(registry)
	if err != nil {
		return nil, err
	}
	root, err := evidence.ParseRoot(raw, evidence.PurposeSignerCertificate)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", registry, err)
	}
	b, _, err := archive.ReadAnyBundle(bundle)
	if err != nil {
		return nil, err
	}
	roots := []evidence.Root{root}
	books := &Books{now: now, revoked: make(map[string]evidence.Revocation)}
	if books.trust, err = evidence.NewTrust(roots, b, evidence.SignerPolicy{}); err != nil {
		return nil, fmt.Errorf("%s: %w", bundle, err)
	}
	h, segments, err := archive.ReadHistory(bundle, b)
	if err != nil {
		return nil, err
	}
	past, err := evidence.ReadPastTrust(roots, b, h.Revocations, evidence.SignerPolicy{}, segments...)
	if err == nil {
		err = past.VerifyAll(func(c evidence.SignerCertificate) { books.past = append(books.past, c) })
	}
	if err != nil {
		return nil, fmt.Errorf("the history beside %s: %w", bundle, err)
	}
	books.since = revokedAt(h)
	for _, token := range append(h.Revocations, b.Revocations) {
		if token == "" {
			continue
		}
		list, _ := evidence.UnverifiedClaims(evidence.RevocationListKind(), token) // verified above
		books.lists = append(books.lists, list)
		for _, r := range list.Revoked {
			books.revoked[r.Kind+" "+r.ID] = r
		}
	}
	return books, nil
}

// Complete adds to the versions that processes publish what the bundle says of them, and the versions that no process
// of those publishes and that the bundle or its history knows.
func (b *Books) Complete(published []Version) []Version {
	certified := make(map[string]evidence.Certified)
	for _, c := range b.trust.Certified() {
		certified[c.Certificate.SubjectKeyID] = c
	}
	seen := make(map[string]bool)
	var all []Version
	for _, v := range published {
		seen[v.KeyID] = true
		c, ok := certified[v.KeyID]
		// a name is not yet the key
		ok = ok && slices.Equal(v.public, ed25519.PublicKey(c.Public)) && slices.Contains(c.Certificate.Purposes, v.Purpose)
		if ok {
			v.certify(c.Certificate)
		}
		b.judge(&v, c.Certificate, ok)
		all = append(all, v)
	}
	add := func(c evidence.SignerCertificate, inForce bool) {
		if seen[c.SubjectKeyID] {
			return
		}
		seen[c.SubjectKeyID] = true
		v := Version{Purpose: c.Purposes[0], KeyID: c.SubjectKeyID, Issuer: c.SubjectIssuer, Custody: c.KeyCustody,
			Exportable: c.KeyExportable}
		b.judge(&v, c, inForce)
		v.certify(c)
		all = append(all, v)
	}
	for _, c := range certified {
		add(c.Certificate, true)
	}
	for _, c := range slices.Backward(b.past) { // of several certificates of one version the last one ends the latest
		add(c, false)
	}
	slices.SortStableFunc(all, func(x, y Version) int {
		return cmp.Or(cmp.Compare(evidence.KeyName(x.KeyID), evidence.KeyName(y.KeyID)),
			cmp.Compare(evidence.KeyVersion(x.KeyID), evidence.KeyVersion(y.KeyID)))
	})
	return all
}

func (v *Version) certify(c evidence.SignerCertificate) {
	until := time.Unix(c.Expires, 0).UTC()
	v.Until = &until
}

// revocation returns the first revocation of a version, and when it was made if the history says so. id is that of its
// certificate.
func (b *Books) revocation(kid, id string) (first *Revoked) {
	for _, key := range []string{evidence.RevokedKey + " " + kid, evidence.RevokedKey + " " + evidence.KeyName(kid),
		evidence.RevokedArtifact + " " + id} {
		r, ok := b.revoked[key]
		if !ok {
			continue
		}
		found := &Revoked{Reason: r.Reason}
		if at, ok := b.since[key]; ok {
			found.At = &at
		}
		if first == nil || found.At != nil && (first.At == nil || found.At.Before(*first.At)) {
			first = found
		}
	}
	return first
}

// judge says what has become of a version. c is its certificate, if it has one, and inForce whether the bundle has c.
func (b *Books) judge(v *Version, c evidence.SignerCertificate, inForce bool) {
	id := ""
	if inForce {
		id = c.ID
	}
	v.Revocation = b.revocation(v.KeyID, id)
	_, retired := b.trust.Retired(v.KeyID)
	switch {
	case v.Revocation != nil:
		v.State = StateRevoked
	case retired:
		v.State = Retired
	case inForce && b.now.Before(time.Unix(c.Expires, 0)):
		v.State = Certified
	case c.Expires > 0 && !b.now.Before(time.Unix(c.Expires, 0)):
		v.State = Ended
	default:
		v.State = NotCertified
	}
}
