package archive

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
)

// readPart reads a part of an unverified token: 0 is its header, 1 its claims.
func readPart(token string, part int, to any) error {
	parts := strings.SplitN(token+"..", ".", 3)
	raw, err := base64.RawURLEncoding.DecodeString(parts[part])
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, to)
}

// NotOtherwise refuses JSON beside a verified token with a member that says otherwise than the token: another value of
// a claim, one that the token leaves out, or a claim in another case. kind has the claims that such a token can have.
func NotOtherwise(members map[string]json.RawMessage, token string, kind any) error {
	var claims map[string]any
	if err := readPart(token, 1, &claims); err != nil {
		return err
	}
	isClaim := func(name string) bool {
		return slices.ContainsFunc(reflect.VisibleFields(reflect.TypeOf(kind)), func(f reflect.StructField) bool {
			claim, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return strings.EqualFold(claim, name)
		})
	}
	for name, text := range members {
		claim, ok := claims[name]
		if !ok && !isClaim(name) {
			continue
		}
		var said any
		if err := json.Unmarshal(text, &said); err != nil || !ok || !reflect.DeepEqual(said, claim) {
			return refusal.New("evidence_malformed",
				"the member %q of the file differs from the token in the file", name)
		}
	}
	return nil
}

// TypeOf returns the type that a token that begins with start claims, or nothing.
func TypeOf(start string) string {
	var header struct{ Typ string }
	_ = readPart(start, 0, &header)
	return header.Typ
}

// JudgeAppraised verifies a node's token as of the time of its signature, but not what it was made from. Any issuer
// counts whose key a pinned registry has certified for an appraiser. Others than the node's operator have no manifest,
// and need none.
func JudgeAppraised[C any](a Archive, k evidence.Kind[C], token string, now time.Time) (c C, err error) {
	if c, err = evidence.UnverifiedClaims(k, token); err != nil {
		return c, err
	}
	for _, t := range a {
		var o evidence.Opened[C]
		if o, err = openAppraised(t, k, k.Registered(c), token, now); err == nil {
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
	if err != nil && len(t.History.Manifests) == 0 {
		m, err = &manifest{strict: &policy.Strict{Signers: t.anyCertified()}}, nil
	}
	if err != nil {
		return o, err
	}
	past, err := t.believedBy(m)
	if err != nil {
		return o, err
	}
	verifier, err := past.At(time.Unix(c.IssuedAt, 0), now)
	if err != nil {
		return o, err
	}
	return evidence.Open(verifier, k, token, evidence.Expected{
		Issuers: []string{c.Issuer}, Audiences: []string{c.Audience}, KeyIDs: []string{evidence.KeyIDOf(token)},
		MaxAge: k.MaxLifetime,
	})
}

// anyCertified accepts all certificates of the bundle whose keys are what each strict manifest demands.
func (t *Trust) anyCertified() evidence.SignerPolicy {
	k := evidence.SignerCertificateKind()
	p := evidence.SignerPolicy{DenyAgentAccessible: true, DenyUserAccessible: true, Expected: evidence.Expected{
		KeyIDs: []string{t.Roots[0].KeyID}, MaxAge: k.MaxLifetime, RequireNonExportable: true,
		Custody: []string{evidence.CustodyExternalMediator, evidence.CustodyHardwareBacked},
	}}
	for _, token := range t.Bundle.Certificates {
		if c, err := evidence.UnverifiedClaims(k, token); err == nil {
			p.Issuers, p.Audiences = append(p.Issuers, c.Issuer), append(p.Audiences, c.Audience)
		}
	}
	return p
}
