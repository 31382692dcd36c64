package node

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
)

// pins is what others pin to verify the node's tokens, once they have compared the thumbprint with its operator.
type pins struct {
	Issuer     string           `json:"issuer"`
	Audience   string           `json:"audience"`
	KeyID      string           `json:"keyId"`
	Registry   json.RawMessage  `json:"registry"`
	Thumbprint string           `json:"registryThumbprint"`
	Auditor    json.RawMessage  `json:"auditor"`
	Bundle     evidence.Bundle  `json:"bundle"`
	History    evidence.History `json:"history"`
}

// maxEarlier bounds the history that the node shows, in bytes: certificates of over a year.
const maxEarlier = 1 << 20

// pinsAge bounds how old the pins are that the node shows: anyone may ask, and a bundle can be large.
const pinsAge = time.Second

// shown keeps the pins for pinsAge. It is safe for concurrent use.
type shown struct {
	mu     sync.Mutex // guards all below
	at     time.Time
	text   []byte
	bundle []byte           // the last one read
	past   evidence.History // what its history adds
	// whole has the key's certificates and all revocation lists of the history's first segments, which never change.
	whole    evidence.History
	segments int // in whole
}

func (s *shown) get(read func() ([]byte, error)) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text != nil && time.Since(s.at) < pinsAge {
		return s.text, nil
	}
	text, err := read()
	if err == nil {
		s.at, s.text = time.Now(), text
	}
	return text, err
}

func (p *process) pins() ([]byte, error) { return p.shown.get(p.readPins) }

func (p *process) readPins() ([]byte, error) {
	c, role := p.config.Trust, p.config.Keys.Appraiser
	roots, err := deployed.ReadRoots(c.Registry, c.Auditor)
	if err != nil {
		return nil, err
	}
	out := pins{Issuer: role.Issuer, Audience: role.Audience, KeyID: role.Key,
		Thumbprint: interaction.Owner(roots[0].Public)}
	for _, f := range []struct {
		path string
		into *json.RawMessage
	}{{c.Registry, &out.Registry}, {c.Auditor, &out.Auditor}} {
		raw, err := files.Read(f.path)
		if err != nil {
			return nil, err
		}
		*f.into = raw
	}
	b, raw, err := deployed.ReadBundle(c.Bundle)
	if err != nil {
		return nil, err
	}
	if s := &p.shown; !bytes.Equal(s.bundle, raw) {
		s.bundle = nil
		if s.past, err = s.earlier(c.Bundle, b.History, role.Key); err == nil {
			s.bundle = raw
		} else { // newer tokens can still be verified
			p.strangers.Error("the history of the trust bundle is not shown", zap.Error(err))
		}
	}
	b.History = nil // most of its files are not shown
	out.Bundle, out.History = b, p.shown.past
	text, err := json.Marshal(out)
	return append(text, '\n'), err
}

// earlier returns what the history beside a bundle adds for tokens by one key: all revocation lists, and the newest
// certificates of the key that have room beside these.
func (s *shown) earlier(path string, end *evidence.HistoryEnd, key string) (h evidence.History, err error) {
	h.Certificates = []string{}
	numbers, err := archive.HistorySegments(path)
	if err != nil {
		return h, err
	}
	last := len(numbers)
	if end != nil {
		last = max(last, end.Segment)
	}
	if last <= s.segments { // it began anew
		s.whole, s.segments = evidence.History{}, 0
	}
	all := s.whole
	for n := s.segments + 1; n <= last; n++ {
		one, err := archive.ReadSegment(archive.SegmentFile(path, n))
		if err != nil {
			return h, err
		}
		if end != nil && n == end.Segment && one.Texts() < end.Texts {
			return h, refusal.New("trust_malformed", "the history is an older copy: a revocation may be missing")
		}
		own := slices.DeleteFunc(one.Certificates, func(token string) bool {
			c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind(), token)
			return err != nil || !evidence.MatchKeyID([]string{key, key + evidence.AnySegment}, c.SubjectKeyID)
		})
		all.Certificates = append(slices.Clip(all.Certificates), own...)
		all.Revocations = append(slices.Clip(all.Revocations), one.Revocations...)
		if n < last {
			s.whole, s.segments = all, n
		}
	}
	room := maxEarlier
	for _, list := range all.Revocations {
		room -= len(list)
	}
	first := len(all.Certificates)
	for ; first > 0 && len(all.Certificates[first-1]) <= room; first-- {
		room -= len(all.Certificates[first-1])
	}
	if first < len(all.Certificates) { // no certificate without the lists
		h.Certificates, h.Revocations = all.Certificates[first:], all.Revocations
	}
	return h, nil
}
