package node

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/files"
)

// pins is what others need to verify the node's tokens. They compare the thumbprint with the node's operator, and pin
// both root keys.
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

// shown keeps the pins for pinsAge, and their history until the bundle changes. It is safe for concurrent use.
type shown struct {
	mu      sync.Mutex // guards all below
	at      time.Time
	text    []byte
	bundle  []byte
	history evidence.History
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
		if s.history, err = earlier(c.Bundle, b, role.Key); err == nil {
			s.bundle = raw
		} // else newer tokens can still be verified
	}
	b.History = nil // most of its files are not shown
	out.Bundle, out.History = b, p.shown.history
	text, err := json.Marshal(out)
	return append(text, '\n'), err
}

// earlier returns what the history beside a bundle adds for tokens by one key: all revocation lists, and the newest
// certificates of the key that have room beside these.
func earlier(path string, b evidence.Bundle, key string) (h evidence.History, err error) {
	h.Certificates = []string{}
	all, segments, err := archive.ReadHistory(path, b)
	if err != nil {
		return h, err
	}
	var own []string
	for _, segment := range segments {
		certificates, err := segment()
		if err != nil {
			return h, err
		}
		for _, token := range certificates {
			c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind(), token)
			if err == nil && evidence.MatchKeyID([]string{key, key + "/*"}, c.SubjectKeyID) {
				own = append(own, token)
			}
		}
	}
	room := maxEarlier
	for _, list := range all.Revocations {
		room -= len(list)
	}
	first := len(own)
	for ; first > 0 && len(own[first-1]) <= room; first-- {
		room -= len(own[first-1])
	}
	if first < len(own) { // no certificate without the lists
		h.Certificates, h.Revocations = own[first:], all.Revocations
	}
	return h, nil
}
