package evidence

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// History is one segment of what the security team signed earlier and the bundle no longer holds. It is public. Only
// verifiers of records read it ([PastTrust]), so a retired key stays refused for live calls.
type History struct {
	// Certificates of retired key versions, which end at the retirement, and certificates that a later one replaced.
	Certificates []string `json:"certificates"`
	// Revocations are revocation lists. Each holds the entries of one revocation, so its iat is the time of it.
	Revocations []string `json:"revocations,omitempty"`
	// Manifests are the certified deployment manifests, as canonical JSON.
	Manifests []string `json:"manifests,omitempty"`
}

// Texts returns how many texts the segment has.
func (h History) Texts() int { return len(h.Certificates) + len(h.Revocations) + len(h.Manifests) }

// ParseHistory reads one segment of a history and verifies nothing.
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

// Segment reads the certificates of one segment. It is called again when one is needed, so that not all are in memory.
type Segment func() ([]string, error)

// Certificates returns certificates in memory as a segment.
func Certificates(tokens []string) Segment {
	return func() ([]string, error) { return tokens, nil }
}

// PastTrust verifies records. At each moment the certificates of that moment count, and everything revoked since stays
// revoked. It verifies certificates when it uses them. It is safe for concurrent use.
type PastTrust struct {
	roots []Root
	lists []string // the bundle's revocation list, then the history's
	pins  *Trust   // roots, policy and everything ever revoked, without certificates
	index *pastIndex

	mu     sync.Mutex
	opened map[string][]*certified // verified certificates, by kid, in the order of iat
}

// NewPastTrust makes the trust in a bundle and a history in memory.
func NewPastTrust(roots []Root, b Bundle, h History, policy SignerPolicy) (*PastTrust, error) {
	return ReadPastTrust(roots, b, h.Revocations, policy, Certificates(h.Certificates))
}

// ReadPastTrust reads the segments of a history, oldest first, and indexes the certificates. revocations are the lists
// of the history. A malformed certificate refuses everything.
func ReadPastTrust(
	roots []Root, b Bundle, revocations []string, policy SignerPolicy, history ...Segment,
) (*PastTrust, error) {
	if b.Revocations == "" && len(revocations) > 0 {
		return nil, refusal.New("revocations_stale", "the history has revocation lists, and the trust bundle has none")
	}
	// The bundle comes last: of two certificates of one second, its own counts.
	index, err := newPastIndex(append(slices.Clone(history), Certificates(b.Certificates)))
	if err != nil {
		return nil, err
	}
	p := &PastTrust{roots: roots, lists: append([]string{b.Revocations}, revocations...), index: index}
	return p.pinned(policy, nil)
}

// Under returns p for another policy.
func (p *PastTrust) Under(policy SignerPolicy) (*PastTrust, error) {
	return (&PastTrust{roots: p.roots, lists: p.lists, index: p.index}).pinned(policy, p.pins)
}

// Revoking returns p with a further revocation list.
func (p *PastTrust) Revoking(list string) (*PastTrust, error) {
	lists := slices.DeleteFunc(append([]string{list}, p.lists...), func(list string) bool { return list == "" })
	if len(lists) == 0 {
		return p, nil
	}
	return (&PastTrust{roots: p.roots, lists: lists, index: p.index}).pinned(p.pins.policy, nil)
}

// pinned completes p with roots, policy and revocations. It takes the revocations of before if they were verified
// alike.
func (p *PastTrust) pinned(policy SignerPolicy, before *Trust) (_ *PastTrust, err error) {
	if p.pins, err = newTrust(p.roots, policy); err != nil {
		return nil, err
	}
	p.pins.past, p.opened = true, make(map[string][]*certified)
	switch {
	case p.lists[0] == "":
	case before != nil && before.policy.RequirePostQuantum == policy.RequirePostQuantum:
		p.pins.revocations = before.revocations
	default:
		if p.pins.revocations, err = p.pins.openRevocations(p.lists[0]); err != nil {
			return nil, err
		}
		for _, token := range p.lists[1:] {
			r, err := p.pins.openRevocations(token)
			if err != nil {
				return nil, err
			}
			p.pins.revocations.include(r.list.Revoked)
		}
	}
	return p, nil
}

// VerifyAll verifies every certificate and calls each with it, if each is not nil. It keeps none in memory.
func (p *PastTrust) VerifyAll(each func(SignerCertificate)) error {
	for _, segment := range p.index.segments {
		tokens, err := segment()
		if err != nil {
			return err
		}
		for _, token := range tokens {
			s, err := p.pins.openCertificate(token)
			if err != nil {
				return err
			}
			if each != nil {
				each(s.cert)
			}
		}
	}
	return nil
}

// At returns a verifier for a moment. For each key the last certificate of that moment counts. What was revoked since
// is refused. At refuses a moment in the future.
func (p *PastTrust) At(moment, now time.Time) (*Verifier, error) {
	if moment.After(now.Add(DefaultSkew)) {
		return nil, refusal.New("clock_skew", "it is of %s, which is in the future", moment.UTC().Format(time.RFC3339))
	}
	t := *p.pins
	t.find = func(kid string) (s *certified, newest int, err error) { return p.find(kid, moment) }
	return NewVerifier(&t, VerifierOptions{Now: func() time.Time { return moment }})
}

// find returns the certificate of a key that counts at a moment, or nil, and the key's newest version by then.
func (p *PastTrust) find(kid string, moment time.Time) (*certified, int, error) {
	name, version := cutKeyID(kid)
	newest := 0
	for _, of := range p.index.versions[name] {
		if of.since <= moment.Unix() {
			newest = max(newest, of.number)
		}
	}
	all, err := p.open(kid)
	if err != nil || len(all) == 0 {
		return nil, newest, err
	}
	last := all[0]
	for _, s := range all {
		if s.cert.IssuedAt <= moment.Unix() {
			last = s
		}
	}
	// A certificate that had ended was retired, if there was a later version.
	if !moment.Add(-DefaultSkew).Before(time.Unix(last.cert.Expires, 0)) && version < newest {
		return nil, newest, nil
	}
	return last, newest, nil
}

// maxOpened bounds the keys whose verified certificates stay in memory.
const maxOpened = 1024

// open verifies the certificates of a key, in the order of iat.
func (p *PastTrust) open(kid string) ([]*certified, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if all, ok := p.opened[kid]; ok {
		return all, nil
	}
	var all []*certified
	for _, at := range p.index.keys[kid] {
		token, err := p.index.read(at)
		if err != nil {
			return nil, err
		}
		s, err := p.pins.openCertificate(token)
		if err != nil {
			return nil, err
		}
		if s.cert.SubjectKeyID != kid {
			return nil, refusal.New("trust_malformed", "the history was changed while it was read")
		}
		s.token, s.shared = "", p.index.purposes[s.cert.SubjectPublicKeyHash] == severalPurposes
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(x, y *certified) int { return cmp.Compare(x.cert.IssuedAt, y.cert.IssuedAt) })
	if len(p.opened) >= maxOpened {
		clear(p.opened)
	}
	if len(all) > 0 {
		p.opened[kid] = all
	}
	return all, nil
}

// pastIndex finds certificates by their unverified claims. A forged claim can only refuse more: everything believed is
// verified first.
type pastIndex struct {
	segments []Segment
	keys     map[string][]place       // by kid, in the order of the segments
	versions map[string][]pastVersion // by key name
	purposes map[string]string        // by the hash of a public key; severalPurposes if it has more than one

	mu     sync.Mutex
	tokens []string // of the segment read last
	last   int      // its number
}

type place struct{ segment, number int32 }

const severalPurposes = "*"

// pastVersion is a version of a key, and the time of its first certificate.
type pastVersion struct {
	number int
	since  int64
}

func newPastIndex(segments []Segment) (*pastIndex, error) {
	x := &pastIndex{
		segments: segments, last: -1,
		keys: make(map[string][]place), versions: make(map[string][]pastVersion), purposes: make(map[string]string),
	}
	for i, segment := range segments {
		tokens, err := segment()
		if err != nil {
			return nil, err
		}
		for n, token := range tokens {
			c, err := UnverifiedClaims(SignerCertificateKind, token)
			if err != nil {
				return nil, err
			}
			x.add(c, place{int32(i), int32(n)}) //nolint:gosec // no history has so many
		}
	}
	return x, nil
}

func (x *pastIndex) add(c SignerCertificate, at place) {
	kid := c.SubjectKeyID
	if name, number := cutKeyID(kid); number > 0 {
		of := x.versions[name]
		i := slices.IndexFunc(of, func(v pastVersion) bool { return v.number == number })
		if x.keys[kid] == nil {
			x.versions[name] = append(of, pastVersion{number, c.IssuedAt})
		} else if i >= 0 {
			of[i].since = min(of[i].since, c.IssuedAt)
		}
	}
	x.keys[kid] = append(x.keys[kid], at)
	if before, ok := x.purposes[c.SubjectPublicKeyHash]; ok && before != c.Purposes[0] {
		x.purposes[c.SubjectPublicKeyHash] = severalPurposes
	} else {
		x.purposes[c.SubjectPublicKeyHash] = c.Purposes[0]
	}
}

// read returns one certificate. It keeps the last segment in memory.
func (x *pastIndex) read(at place) (string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if int(at.segment) != x.last {
		tokens, err := x.segments[at.segment]()
		if err != nil {
			return "", err
		}
		x.tokens, x.last = tokens, int(at.segment)
	}
	if int(at.number) >= len(x.tokens) {
		return "", refusal.New("trust_malformed", "the history was changed while it was read")
	}
	return x.tokens[at.number], nil
}
