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
	Ended        = "ended"         // its certificate has expired, and there is no later one
	Retired      = "retired"
	StateRevoked = "revoked"
)

// Version describes one version of a key, from the process that publishes it and from the trust bundle. Unknown fields
// are nil or empty.
type Version struct {
	Purpose    string     `json:"purpose"`
	KeyID      string     `json:"keyId"`
	Issuer     string     `json:"issuer"`
	Custody    string     `json:"keyCustody"`
	Exportable bool       `json:"keyExportable"`
	Process    string     `json:"process,omitempty"` // its endpoint; empty if no process publishes the version
	Created    *time.Time `json:"created,omitempty"`
	Signs      *bool      `json:"signs,omitempty"` // whether the process signs with it now
	State      string     `json:"state,omitempty"`
	Until      *time.Time `json:"certifiedUntil,omitempty"` // the end of its certificate
	Revocation *Revoked   `json:"revocation,omitempty"`     // nil if it is not revoked
	Use        *Use       `json:"use,omitempty"`            // nil if it is unknown

	public ed25519.PublicKey
}

// Revoked says when and why the registry first revoked a version.
type Revoked struct {
	At     *time.Time `json:"time,omitempty"` // nil if the history does not say
	Reason string     `json:"reason"`
}

// Use counts the posts in records that a version has signed something for.
type Use struct {
	First time.Time `json:"first,omitzero"` // the start of the first post
	Last  time.Time `json:"last,omitzero"`
	Posts int64     `json:"posts"`
}

// AddUse sets the use of versions, summed over records. It stays unknown for keys that sign receipts, which are in no
// record, and for one made after its first use: an earlier key had its id, as keys in memory have at each start.
func AddUse(versions []Version, records []ledger.KeyUse) {
	for i := range versions {
		v := &versions[i]
		use := &Use{}
		for _, r := range records {
			if r.KeyID != v.KeyID {
				continue
			}
			if use.Posts == 0 || r.First.Before(use.First) {
				use.First = r.First
			}
			if r.Last.After(use.Last) {
				use.Last = r.Last
			}
			use.Posts += r.Posts
		}
		earlier := v.Created != nil && use.Posts > 0 && use.First.Before(v.Created.Truncate(time.Second))
		if v.Purpose != evidence.PurposeInteraction && !earlier {
			v.Use = use
		}
	}
}

// VersionsOf lists the versions that a process or a file publishes. Which version signs is unknown for a file, because
// it may have changed.
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
	past    []evidence.SignerCertificate // of the history
	revoked map[string]Revoked           // by kind and id
	lists   []evidence.RevocationList    // of the history and the bundle
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
	books := &Books{now: now, revoked: make(map[string]Revoked)}
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
	for i, token := range append(h.Revocations, b.Revocations) {
		if token == "" {
			continue
		}
		list, _ := evidence.UnverifiedClaims(evidence.RevocationListKind(), token) // verified above
		key := func(r evidence.Revocation) string { return r.Kind + " " + r.ID }
		if i == len(h.Revocations) { // of entries in both, the bundle's list has later ends and shorter reasons
			list.Revoked = slices.DeleteFunc(list.Revoked, func(r evidence.Revocation) bool {
				_, known := books.revoked[key(r)]
				return known
			})
		}
		books.lists = append(books.lists, list)
		issued := time.Unix(list.IssuedAt, 0).UTC()
		for _, r := range list.Revoked {
			revoked, known := books.revoked[key(r)]
			switch {
			case i == len(h.Revocations): // it is signed again and again: it does not say when
				revoked.Reason = r.Reason
			case !known || issued.Before(*revoked.At):
				revoked = Revoked{&issued, r.Reason}
			}
			books.revoked[key(r)] = revoked
		}
	}
	return books, nil
}

// Complete adds the bundle's word to the versions that processes publish, and the other versions of the bundle and of
// its history.
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
		// another key may have the same name
		ok = ok && slices.Equal(v.public, ed25519.PublicKey(c.Public)) &&
			slices.Contains(c.Certificate.Purposes, v.Purpose)
		if ok {
			v.certify(c.Certificate)
		}
		b.judge(&v, c.Certificate, ok)
		all = append(all, v)
	}
	add := func(c evidence.SignerCertificate, current bool) {
		if seen[c.SubjectKeyID] {
			return
		}
		seen[c.SubjectKeyID] = true
		v := Version{Purpose: c.Purposes[0], KeyID: c.SubjectKeyID, Issuer: c.SubjectIssuer, Custody: c.KeyCustody,
			Exportable: c.KeyExportable}
		b.judge(&v, c, current)
		v.certify(c)
		all = append(all, v)
	}
	for _, c := range certified {
		add(c.Certificate, true)
	}
	for _, c := range slices.Backward(b.past) { // the last of several certificates of a version ends latest
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

// revocation returns the first revocation of a version, or nil. id is its certificate's.
func (b *Books) revocation(kid, id string) (first *Revoked) {
	keys := []string{evidence.RevokedArtifact + " " + id}
	for _, name := range evidence.RevocableNames(kid) {
		keys = append(keys, evidence.RevokedKey+" "+name)
	}
	for _, key := range keys {
		found, ok := b.revoked[key]
		if ok && (first == nil || found.At != nil && (first.At == nil || found.At.Before(*first.At))) {
			first = &found
		}
	}
	return first
}

// judge sets the state of a version. c is its certificate, if it has one; current reports whether the bundle has c.
func (b *Books) judge(v *Version, c evidence.SignerCertificate, current bool) {
	id := ""
	if current {
		id = c.ID
	}
	v.Revocation = b.revocation(v.KeyID, id)
	_, retired := b.trust.Retired(v.KeyID)
	switch {
	case v.Revocation != nil:
		v.State = StateRevoked
	case retired:
		v.State = Retired
	case current && b.now.Before(time.Unix(c.Expires, 0)):
		v.State = Certified
	case c.Expires > 0 && !b.now.Before(time.Unix(c.Expires, 0)):
		v.State = Ended
	default:
		v.State = NotCertified
	}
}
