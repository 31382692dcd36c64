package keyring

import (
	"cmp"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// Changes of keys.
const (
	EventCertified = "certified" // the first certificate of a version: it was rotated to, or is new
	EventRenewed   = "renewed"
	EventRetired   = "retired"
	EventRevoked   = "revoked" // at the time of the first known list with the entry, or earlier
	EventRotated   = "rotated" // Vault made another version
)

// Event is a change of a key.
type Event struct {
	Time    time.Time `json:"time"`
	Change  string    `json:"change"`
	KeyID   string    `json:"keyId"` // a kid, a key's name for all its versions, or the id of a revoked artifact
	Purpose string    `json:"purpose,omitempty"`
	By      string    `json:"by"` // the key registry; of a rotation the token and its address
	Reason  string    `json:"reason,omitempty"`
}

// Events returns the changes that the key registry has signed, oldest first.
func (b *Books) Events() []Event {
	all := slices.Clone(b.past)
	for _, c := range b.trust.Certified() {
		all = append(all, c.Certificate)
	}
	slices.SortFunc(all, func(x, y evidence.SignerCertificate) int {
		return cmp.Or(cmp.Compare(x.IssuedAt, y.IssuedAt), cmp.Compare(x.ID, y.ID), -cmp.Compare(x.Expires, y.Expires))
	})
	var events []Event
	seen, listed := make(map[string]bool), make(map[evidence.Revocation]bool)
	latest := make(map[string]evidence.SignerCertificate) // by version
	for _, c := range all {
		e := Event{Time: time.Unix(c.IssuedAt, 0).UTC(), Change: EventRenewed, KeyID: c.SubjectKeyID,
			Purpose: c.Purposes[0], By: c.Issuer}
		latest[c.SubjectKeyID] = c
		if seen[c.ID] { // the same certificate in the history, or with its retirement as its end
			continue
		}
		version := c.SubjectKeyID + " " + c.SubjectPublicKey
		if !seen[version] {
			e.Change = EventCertified
		}
		seen[version], seen[c.ID] = true, true
		events = append(events, e)
	}
	for kid, c := range latest {
		if _, retired := b.trust.Retired(kid); retired {
			events = append(events,
				Event{Time: time.Unix(c.Expires, 0).UTC(), Change: EventRetired, KeyID: kid, Purpose: c.Purposes[0],
					By: c.Issuer})
		}
	}
	slices.SortFunc(b.lists, func(x, y evidence.RevocationList) int { return cmp.Compare(x.IssuedAt, y.IssuedAt) })
	for _, list := range b.lists {
		for _, r := range list.Revoked {
			if !listed[r] {
				listed[r] = true
				events = append(events, Event{time.Unix(list.IssuedAt, 0).UTC(), EventRevoked, r.ID, "", list.Issuer,
					r.Reason})
			}
		}
	}
	return Sorted(events)
}

// Sorted returns events in the order of time.
func Sorted(events []Event) []Event {
	slices.SortStableFunc(events, func(x, y Event) int {
		return cmp.Or(x.Time.Compare(y.Time), cmp.Compare(x.KeyID, y.KeyID))
	})
	return events
}
