package node

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/files"
)

// pins is what others pin to verify the node's tokens, once they have compared the thumbprint with its operator.
type pins struct {
	Issuer     string          `json:"issuer"`
	Audience   string          `json:"audience"`
	KeyID      string          `json:"keyId"`
	Registry   json.RawMessage `json:"registry"`
	Thumbprint string          `json:"registryThumbprint"`
	Auditor    json.RawMessage `json:"auditor"`
	Bundle     evidence.Bundle `json:"bundle"`
}

// pinsAge bounds how old the pins are that the node shows: anyone may ask, and a bundle can be large.
const pinsAge = time.Second

// shown keeps the pins for pinsAge. It is safe for concurrent use.
type shown struct {
	mu   sync.Mutex // guards all below
	at   time.Time
	text []byte
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
	if out.Bundle, _, err = deployed.ReadBundle(c.Bundle); err != nil {
		return nil, err
	}
	out.Bundle.History = nil // its files are not shown, and only older tokens need them
	text, err := json.Marshal(out)
	return append(text, '\n'), err
}
