package main

import (
	"context"
	"net/http"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/signer"
)

// role is one signing role of this process: what it signs, as whom, with which key.
type role struct {
	purpose string
	issuer  string
	key     *signer.Rotation
}

// roleDocument is what a process publishes of a role, for the key registry to certify. Public only.
type roleDocument struct {
	Purpose       string            `json:"purpose"`
	Issuer        string            `json:"issuer"`
	KeyCustody    string            `json:"keyCustody"`
	KeyExportable bool              `json:"keyExportable"`
	Observed      []string          `json:"observed"`
	Keys          []jose.JSONWebKey `json:"keys"` // every accepted version, oldest first
}

// newIssuer opens the key of one role, makes its signer and adds the role to those of the process.
func newIssuer[C any](ctx context.Context, p *process, kind evidence.Kind[C], k keyConfig, audience string) (*signer.Issuer[C], error) {
	held, err := p.keys.key(ctx, kind.Purpose, k)
	if err != nil {
		return nil, err
	}
	key := signer.NewRotation(held, certificateSettle, time.Now)
	p.roles = append(p.roles, role{purpose: kind.Purpose, issuer: k.Issuer, key: key})
	return signer.New(kind, key, signer.Options{Issuer: k.Issuer, Audience: audience, Lifetime: k.Lifetime.or(time.Minute), Now: time.Now})
}

// maxSigned is how long anything that a process signs may be good for.
var maxSigned = evidence.RuntimeAttestationKind.MaxLifetime

// namedKey is a role's key, and where it stands in the configuration.
type namedKey struct {
	at string
	keyConfig
}

// checkKeys adds what is wrong with the keys of a process. No two roles share a key or an issuer.
func checkKeys(f *findings, keys ...namedKey) {
	for i, k := range keys {
		f.need(k.at+".key", k.Key, k.at+".issuer", k.Issuer)
		if l := time.Duration(k.Lifetime); l != 0 && (l < time.Second || l > maxSigned) {
			f.add(k.at+".lifetime", "%s is not between 1s and %s", l, maxSigned)
		}
		for _, other := range keys[:i] {
			if k.Key != "" && k.Key == other.Key {
				f.add(k.at+".key", "%s is the key of %s too", k.Key, other.at)
			}
			if k.Issuer != "" && k.Issuer == other.Issuer {
				f.add(k.at+".issuer", "%s is the issuer of %s too", k.Issuer, other.at)
			}
		}
	}
}

func documents(ctx context.Context, roles []role) ([]roleDocument, error) {
	out := make([]roleDocument, 0, len(roles))
	for _, r := range roles {
		set, err := custody.JWKS(ctx, r.key)
		if err != nil {
			return nil, err
		}
		p := r.key.Properties()
		out = append(out, roleDocument{
			Purpose: r.purpose, Issuer: r.issuer, KeyCustody: p.Custody, KeyExportable: p.Exportable, Observed: p.Observed, Keys: set.Keys,
		})
	}
	return out, nil
}

// rolesHandler answers GET /v1/roles (what the key registry certifies) and GET /v1/jwks (RFC 7517) with public keys.
func rolesHandler(mux *http.ServeMux, roles []role) {
	mux.HandleFunc("GET /v1/roles", func(w http.ResponseWriter, r *http.Request) {
		docs, err := documents(r.Context(), roles)
		wire.Write(w, docs, err)
	})
	mux.HandleFunc("GET /v1/jwks", func(w http.ResponseWriter, r *http.Request) {
		keys := make([]custody.Key, len(roles))
		for i, r := range roles {
			keys[i] = r.key
		}
		set, err := custody.JWKS(r.Context(), keys...)
		wire.Write(w, set, err)
	})
}
