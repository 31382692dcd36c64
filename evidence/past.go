package evidence

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// History is one segment of the signed data that the bundle no longer holds. Only verifiers of records read it, so live
// calls still refuse a retired key.
type History struct {
	// of retired key versions, ended at the retirement, and the replaced ones
	Certificates []string `json:"certificates"`
	// Each holds the entries of one revocation, so its iat tells when that was.
	Revocations []string `json:"revocations,omitempty"`
	// certified deployment manifests, as canonical JSON
	Manifests []string `json:"manifests,omitempty"`
}

// Texts returns the number of certificates, lists and manifests.
func (h History) Texts() int { return len(h.Certificates) + len(h.Revocations) + len(h.Manifests) }

// ParseHistory reads at most [MaxBundle] bytes. It verifies nothing.
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

// Segment reads certificates each time they are needed, so that memory never holds all.
type Segment func() ([]string, error)

// Certificates is a Segment held in memory.
func Certificates(tokens []string) Segment {
	return func() ([]string, error) { return tokens, nil }
}

// PastTrust verifies records with the certificates of each record's moment, but refuses everything revoked since. It is
// safe for concurrent use.
type PastTrust struct {
	roots []Root
	lists []string // the bundle's revocation list, then the history's
	pins  *Trust   // roots, policy and all revocations, without certificates
	index *pastIndex

	mu     sync.Mutex
	opened map[string][]*certified // verified certificates, by kid, in the order of iat
}

// NewPastTrust is [ReadPastTrust] with h in memory.
func NewPastTrust(roots []Root, b Bundle, h History, policy SignerPolicy) (*PastTrust, error) {
	return ReadPastTrust(roots, b, h.Revocations, policy, Certificates(h.Certificates))
}

// ReadPastTrust indexes a history's segments, oldest first. One malformed certificate fails the whole.
func ReadPastTrust(
	roots []Root, b Bundle, revocations []string, policy SignerPolicy, history ...Segment,
) (*PastTrust, error) {
	if b.Revocations == "" && len(revocations) > 0 {
		return nil, refusal.New("revocations_stale", "the history has revocation lists, but the trust bundle has none")
	}
	// The bundle comes last: of two certificates made in one second, its own counts.
	index, err := newPastIndex(append(slices.Clone(history), Certificates(b.Certificates)))
	if err != nil {
		return nil, err
	}
	p := &PastTrust{roots: roots, lists: append([]string{b.Revocations}, revocations...), index: index}
	return p.pinned(policy, nil)
}

// Under returns p with another policy.
func (p *PastTrust) Under(policy SignerPolicy) (*PastTrust, error) {
	return (&PastTrust{roots: p.roots, lists: p.lists, index: p.index}).pinned(policy, p.pins)
}

// Revoking returns p with one more revocation list.
func (p *PastTrust) Revoking(list string) (*PastTrust, error) {
	lists := slices.DeleteFunc(append([]string{list}, p.lists...), func(list string) bool { return list == "" })
	if len(lists) == 0 {
		return p, nil
	}
	return (&PastTrust{roots: p.roots, lists: lists, index: p.index}).pinned(p.pins.policy, nil)
}

// pinned completes p. It reuses the revocations of before if they were verified the same way.
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

// VerifyAll calls a non-nil each with every certificate.
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

// At returns a verifier for a moment, with each key's last certificate by then. It refuses a moment in the future.
func (p *PastTrust) At(moment, now time.Time) (*Verifier, error) {
	if moment.After(now.Add(DefaultSkew)) {
		return nil, refusal.New("clock_skew", "the evidence cannot be verified as of %s, which is in the future",
			moment.UTC().Format(time.RFC3339))
	}
	t := *p.pins
	t.find = func(kid string) (s *certified, newest int, err error) { return p.find(kid, moment) }
	return NewVerifier(&t, VerifierOptions{Now: func() time.Time { return moment }})
}

// Knew reports whether a key was certified by a moment, or is revoked: a thief can claim any moment.
func (p *PastTrust) Knew(kid string, moment time.Time) bool {
	s, _, err := p.find(kid, moment)
	return p.pins.revocations.has(kid) || err == nil && s != nil && s.cert.IssuedAt <= moment.Unix()
}

// find returns a key's certificate, or nil, and its newest version by then.
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
	// A certificate that has ended was retired if a later version existed.
	if !moment.Add(-DefaultSkew).Before(time.Unix(last.cert.Expires, 0)) && version < newest {
		return nil, newest, nil
	}
	return last, newest, nil
}

const maxOpened = 1024

func (p *PastTrust) open(kid string) ([]*certified, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if all, ok := p.opened[kid]; ok {
		return all, nil
	}
	var all []*certified
	seen := make(map[string]bool) // an export can repeat a certificate: each is verified once, in its last place
	for _, at := range slices.Backward(p.index.keys[kid]) {
		token, err := p.index.read(at)
		if err != nil {
			return nil, err
		}
		if seen[token] {
			continue
		}
		seen[token] = true
		s, err := p.pins.openCertificate(token)
		if err != nil {
			return nil, err
		}
		if s.cert.SubjectKeyID != kid {
			return nil, refusal.New("trust_malformed", "the history was changed while it was read")
		}
		s.token = ""
		all = append(all, s)
	}
	for _, s := range all {
		first := p.index.first[s.cert.SubjectPublicKeyHash]
		token, err := p.index.read(first.place)
		if err == nil && !seen[token] {
			_, err = p.pins.openCertificate(token)
		}
		if err != nil {
			return nil, err
		}
		s.shared = first.purpose != s.cert.Purposes[0]
	}
	slices.Reverse(all)
	slices.SortStableFunc(all, func(x, y *certified) int { return cmp.Compare(x.cert.IssuedAt, y.cert.IssuedAt) })
	if len(p.opened) >= maxOpened {
		clear(p.opened)
	}
	if len(all) > 0 {
		p.opened[kid] = all
	}
	return all, nil
}

// pastIndex finds certificates by unverified claims. A forged claim can only cause refusals: everything is verified
// before it is believed.
type pastIndex struct {
	segments []Segment
	keys     map[string][]place       // by kid, in order of segments
	versions map[string][]pastVersion // by key name
	first    map[string]use           // by hash of a public key

	mu     sync.Mutex
	tokens []string // of the segment read last
	last   int      // index of that segment
}

type place struct{ segment, number int32 }

// use is the first purpose that a public key was certified for, and its only one: any process can publish the public
// key of another.
type use struct {
	purpose string
	since   int64
	place
}

// since is the time of its first certificate
type pastVersion struct {
	number int
	since  int64
}

func newPastIndex(segments []Segment) (*pastIndex, error) {
	x := &pastIndex{
		segments: segments, last: -1,
		keys: make(map[string][]place), versions: make(map[string][]pastVersion), first: make(map[string]use),
	}
	for i, segment := range segments {
		tokens, err := segment()
		if err != nil {
			return nil, err
		}
		for n, token := range tokens {
			c, err := UnverifiedClaims(signerCertificate, token)
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
	if before, ok := x.first[c.SubjectPublicKeyHash]; !ok || c.IssuedAt < before.since {
		x.first[c.SubjectPublicKeyHash] = use{c.Purposes[0], c.IssuedAt, at}
	}
}

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
