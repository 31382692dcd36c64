package node

import (
	"encoding/json"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/files"
)

// pins is what others need to verify the node's tokens. They compare the thumbprint with the node's operator, and pin
// both root keys.
type pins struct {
	Issuer     string          `json:"issuer"`
	Audience   string          `json:"audience"`
	KeyID      string          `json:"keyId"`
	Registry   json.RawMessage `json:"registry"`
	Thumbprint string          `json:"registryThumbprint"`
	Auditor    json.RawMessage `json:"auditor"`
	Bundle     json.RawMessage `json:"bundle"`
}

func (p *process) pins() (any, error) {
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
	}{{c.Registry, &out.Registry}, {c.Auditor, &out.Auditor}, {c.Bundle, &out.Bundle}} {
		raw, err := files.Read(f.path)
		if err != nil {
			return nil, err
		}
		*f.into = raw
	}
	return out, nil
}
