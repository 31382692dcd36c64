package evidence

import (
	"cmp"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// History is what the security team has signed for verifiers before what the trust bundle holds now. It is public too, and lies beside the
// bundle. Who verifies records needs it ([PastTrust]); who verifies live calls never reads it, so what is retired stays refused there.
type History struct {
	// Certificates are custody certificates that the bundle has no more: of retired key versions, with the moment of their retirement as
	// their end, and those that another one has replaced.
	Certificates []string `json:"certificates"`
	// Revocations are the last lists in which an entry stood that the bundle's list has no more.
	Revocations []string `json:"revocations,omitempty"`
	// Manifests are the deployment manifests that were certified, as canonical JSON.
	Manifests []string `json:"manifests,omitempty"`
}

// Bounds of a history. The certificates of eight keys that rotate every month fill it in 42 years.
const (
	MaxHistory   = 4096 // certificates
	MaxManifests = 512
)

// ParseHistory reads one strict JSON history, with nothing verified: [NewPastTrust] does.
func ParseHistory(raw []byte) (History, error) {
	var h History
	if len(raw) > MaxBundle {
		return h, refusal.New("trust_malformed", "the history has %d bytes; at most %d are read", len(raw), MaxBundle)
	}
	if err := strictjson.Parse(raw, &h); err != nil {
		return History{}, refusal.New("trust_malformed", "the history is malformed: %v", err)
	}
	return h, nil
}

// PastTrust is whom a verifier of records believes: at each moment the certificates of that moment, and at every moment what has been
// revoked since. It is safe for concurrent use.
type PastTrust struct {
	pins         *Trust                  // the roots, the policy and everything that was ever revoked; it certifies nothing
	certificates map[string][]*certified // by kid, in the order in which they were issued
}

// NewPastTrust verifies every signature of a bundle and a history, as [NewTrust] does. One that is wrong refuses them all.
func NewPastTrust(roots []Root, b Bundle, h History, policy SignerPolicy) (*PastTrust, error) {
	pins, err := newTrust(roots, policy)
	if err != nil {
		return nil, err
	}
	if n := len(b.Certificates) + len(h.Certificates); n > maxCertificates+MaxHistory {
		return nil, refusal.New("trust_malformed", "the trust bundle and its history hold %d certificates; at most %d are read", n, maxCertificates+MaxHistory)
	}
	pins.past = true
	p := &PastTrust{pins: pins, certificates: make(map[string][]*certified)}
	var all []*certified
	for _, token := range slices.Concat(h.Certificates, b.Certificates) { // of two of the same second, the one in the bundle counts
		s, err := pins.openCertificate(token)
		if err != nil {
			return nil, err
		}
		p.certificates[s.cert.SubjectKeyID] = append(p.certificates[s.cert.SubjectKeyID], s)
		all = append(all, s)
	}
	for _, of := range p.certificates {
		slices.SortStableFunc(of, func(x, y *certified) int { return cmp.Compare(x.cert.IssuedAt, y.cert.IssuedAt) })
	}
	markShared(slices.Values(all))
	if err := p.revoke(b.Revocations, h.Revocations); err != nil {
		return nil, err
	}
	return p, nil
}

// revoke takes over the bundle's revocation list, whose times count, and the entries of earlier ones.
func (p *PastTrust) revoke(list string, earlier []string) (err error) {
	if list == "" {
		if len(earlier) > 0 {
			return refusal.New("revocations_missing", "the history has revocation lists, and the trust bundle has none")
		}
		return nil
	}
	if p.pins.revocations, err = p.pins.openRevocations(list); err != nil {
		return err
	}
	for _, token := range earlier {
		r, err := p.pins.openRevocations(token)
		if err != nil {
			return err
		}
		p.pins.revocations.include(r.list.Revoked)
	}
	return nil
}

// At returns a verifier as of a moment: of each key the certificate counts that was the last one then. What was revoked since is refused
// whenever it was signed. A moment after now is refused: no record is of the future.
func (p *PastTrust) At(moment, now time.Time) (*Verifier, error) {
	if moment.After(now.Add(DefaultSkew)) {
		return nil, refusal.New("not_yet_valid", "it is of %s, which is in the future", moment.UTC().Format(time.RFC3339))
	}
	t := *p.pins
	t.signers, t.newest = make(map[string]*certified, len(p.certificates)), make(map[string]int)
	for kid, of := range p.certificates {
		last := of[0]
		for _, s := range of {
			if s.cert.IssuedAt <= moment.Unix() {
				last = s
				name, version := cutKeyID(kid)
				t.newest[name] = max(t.newest[name], version)
			}
		}
		t.signers[kid] = last
	}
	for kid, s := range t.signers { // what had ended by then was retired, if there was a later version
		name, version := cutKeyID(kid)
		if ended := !moment.Add(-DefaultSkew).Before(time.Unix(s.cert.Expires, 0)); ended && version < t.newest[name] {
			delete(t.signers, kid)
		}
	}
	return NewVerifier(&t, VerifierOptions{Now: func() time.Time { return moment }})
}
