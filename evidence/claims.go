package evidence

import (
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// Registered are the claims of RFC 7519 section 4.1, which every artifact has.
type Registered struct {
	Audience string `json:"aud"`
	Expires  int64  `json:"exp"` // NumericDate, Unix seconds
	IssuedAt int64  `json:"iat"` // NumericDate, Unix seconds
	Issuer   string `json:"iss"`
	ID       string `json:"jti"`
}

// NewRegistered makes claims with a fresh jti, valid from now for lifetime.
func NewRegistered(issuer, audience string, now time.Time, lifetime time.Duration) Registered {
	return Registered{
		Audience: audience, Issuer: issuer, ID: NewOrderedID(now),
		IssuedAt: now.Unix(), Expires: now.Add(lifetime).Unix(),
	}
}

func (r *Registered) registered() *Registered { return r }

func (r Registered) check(typ string, maxLifetime time.Duration) error {
	switch {
	case r.Issuer == "" || r.Audience == "" || r.ID == "":
		return refusal.New("artifact_malformed", "the %s lacks one of iss, aud, jti", typ)
	case len(r.Issuer) > maxName || len(r.Audience) > maxName || len(r.ID) > maxName:
		return refusal.New("artifact_malformed", "iss, aud or jti of the %s is longer than %d bytes", typ, maxName)
	case r.IssuedAt <= 0 || r.Expires <= r.IssuedAt:
		return refusal.New("artifact_malformed", "the %s must expire after it is issued", typ)
	case r.Expires-r.IssuedAt > int64(maxLifetime/time.Second):
		return refusal.New("artifact_malformed", "the %s is valid for %d s; at most %d s are accepted", typ,
			r.Expires-r.IssuedAt, int64(maxLifetime/time.Second))
	}
	return nil
}

// Custody classes (seed: keyCustody).
const (
	CustodyExternalMediator = "external_mediator"
	CustodyHardwareBacked   = "hardware_backed"
)

// KeyClaims is the signer's statement about its own key. It must agree with the key's certificate.
type KeyClaims struct {
	KeyCustody    string `json:"keyCustody"`
	KeyExportable bool   `json:"keyExportable"`
}

func (k *KeyClaims) keyClaims() *KeyClaims { return k }
