package archive

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// tokenHeader is what is read of a token's header.
type tokenHeader struct{ Typ, Kid string }

// readHeader reads the header of a token, of which start is the beginning; it is empty if that cannot be read.
func readHeader(start string) (h tokenHeader) {
	text, _, _ := strings.Cut(start, ".")
	if raw, err := base64.RawURLEncoding.DecodeString(text); err == nil {
		_ = json.Unmarshal(raw, &h) // what cannot be read stays empty
	}
	return h
}

// TypeOf returns the type of which a token says that it is, by its beginning; empty if that cannot be read.
func TypeOf(start string) string { return readHeader(start).Typ }

// JudgeAppraised verifies a token that a node has signed, as of the time of its signature: any issuer counts whose key
// one of the pinned registries has certified for an appraiser. registered returns the claims that every token has. What
// the token was made from is not verified.
func JudgeAppraised[C any](a Archive, k evidence.Kind[C], registered func(C) evidence.Registered, token string,
	now time.Time) (c C, err error) {
	if c, err = evidence.UnverifiedClaims(k, token); err != nil {
		return c, err
	}
	for _, t := range a {
		var o evidence.Opened[C]
		if o, err = openAppraised(t, k, registered(c), token, now); err == nil {
			return o.Claims(), nil
		}
	}
	return c, err
}

func openAppraised[C any](t *Trust, k evidence.Kind[C], c evidence.Registered, token string,
	now time.Time) (o evidence.Opened[C], err error) {
	if t.foreign {
		return o, t.notPinned(k.Typ)
	}
	m, err := t.manifest(t.last, k.Typ)
	if err != nil {
		return o, err
	}
	past, err := t.believed(m)
	if err != nil {
		return o, err
	}
	verifier, err := past.At(time.Unix(c.IssuedAt, 0), now)
	if err != nil {
		return o, err
	}
	return evidence.Open(verifier, k, token, evidence.Expected{
		Issuers: []string{c.Issuer}, Audiences: []string{c.Audience}, KeyIDs: []string{readHeader(token).Kid},
		MaxAge: k.MaxLifetime,
	})
}
