package evidence

import (
	"errors"
	"testing"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/test/check"
)

// goldenPossession is a proof by the key of RFC 8037 appendix A.1.
const goldenPossession = "eyJhbGciOiJFZERTQSIsImtpZCI6InJmYzgwMzc6djEiLCJ0eXAiOiJrZXktcG9zc2Vzc2lvbitqd3QifQ." +
	"eyJhdWQiOiJtZWRpYXRvc" +
	"i1yZWdpc3RyYXIiLCJleHAiOjE3OTU4NjcyNjAsImlhdCI6MTc5NTg2NzIwMCwiaXNzIjoic3BpZmZlOi8vZXhhbXBsZS5vcmcvcG9kL" +
	"2FnZW50cy91MSIsImp0aSI6Im5vbmNlIiwicHVibGljYXRpb25IYXNoIjoiZTNiMGM0NDI5OGZjMWMxNDlhZmJmNGM4OTk2ZmI5MjQyN" +
	"2FlNDFlNDY0OWI5MzRjYTQ5NTk5MWI3ODUyYjg1NSJ9.x72amZoLilPZqKeQSy7IubKiD-NjKjrmqZuvtFRsMFS5JTE2zjG-_lyfgwfG" +
	"Rx_Rw8w35giRYXleJau4KG0rCA"

var (
	provenAt = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	rfc8037  = rfc8037Key{ed25519.NewKeyFromSeed([]byte("\x9da\xb1\x9d\xef\xfdZ\x60\xba\x84J\xf4\x92\xec,\xc4DI\xc5" +
		"i{2i\x19p;\xac\x03\x1c\xae\x7f\x60"))}
	possessing = Possession{
		Registered{Audience: AudienceRegistrar, Expires: provenAt.Unix() + 60, IssuedAt: provenAt.Unix(),
			Issuer: "spiffe://example.org/pod/agents/u1", ID: "nonce"}, HashBytes(nil)}
)

func TestPossession(t *testing.T) {
	public := rfc8037.private.Public().(ed25519.PublicKey)
	token, err := Sign(t.Context(), rfc8037, possession, possessing)
	if err != nil || token != goldenPossession {
		t.Errorf("the golden proof is %s, %v", token, err)
	}
	claims, err := OpenPossession(token, "rfc8037:v1", public, provenAt)
	check.Must(t, err)
	check.WantEqual(t, claims, possessing)
	_, err = OpenPossession(token, "rfc8037:v2", public, provenAt)
	check.WantCode(t, err, "signature_invalid")
	_, err = OpenPossession(token, "rfc8037:v1", public, provenAt.Add(3*time.Minute))
	check.WantCode(t, err, "expired")
	_, err = OpenPossession(token, "rfc8037:v1", public, provenAt.Add(-3*time.Minute))
	check.WantCode(t, err, "clock_skew")
}

// FuzzOpenPossession: no panic, a code for each refusal, and the golden proof alone is believed.
func FuzzOpenPossession(f *testing.F) {
	f.Add(goldenPossession)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		_, err := OpenPossession(token, "rfc8037:v1", rfc8037.private.Public().(ed25519.PublicKey), provenAt)
		var refused *refusal.Refusal
		if err == nil != (token == goldenPossession) || err != nil && !errors.As(err, &refused) {
			t.Errorf("%q: %v", token, err)
		}
	})
}

func TestRulesAreChecked(t *testing.T) {
	good := RegistrarRule{DeploymentHash: HashBytes(nil), ID: "spiffe://example.org/machine/*", Role: RoleSidecar}
	pods := RegistrarRule{DeploymentHash: HashBytes(nil), Namespace: "agents", ServiceAccount: "worker", Role: RoleSidecar,
		ImageDigests: []string{"sha256:" + HashBytes(nil)}}
	change := func(r RegistrarRule, f func(*RegistrarRule)) []RegistrarRule {
		f(&r)
		return []RegistrarRule{r}
	}
	for name, rules := range map[string][]RegistrarRule{
		"none": {}, "too many": make([]RegistrarRule, maxRules+1),
		"an unknown role":      change(good, func(r *RegistrarRule) { r.Role = "admin" }),
		"both forms":           change(good, func(r *RegistrarRule) { r.Namespace = "agents" }),
		"no form":              change(good, func(r *RegistrarRule) { r.ID = "" }),
		"another scheme":       change(good, func(r *RegistrarRule) { r.ID = "https://example.org/a" }),
		"a pattern inside":     change(good, func(r *RegistrarRule) { r.ID = "spiffe://example.org/a*" }),
		"no digest":            change(pods, func(r *RegistrarRule) { r.ImageDigests = nil }),
		"a tag":                change(pods, func(r *RegistrarRule) { r.ImageDigests = []string{"latest"} }),
		"no service account":   change(pods, func(r *RegistrarRule) { r.ServiceAccount = "" }),
		"a namespace as path":  change(pods, func(r *RegistrarRule) { r.Namespace = "a/b" }),
		"a malformed DNS name": change(pods, func(r *RegistrarRule) { r.DNSNames = []string{"*"} }),
	} {
		if err := (&RegistrarRules{Rules: rules, Serial: 1}).check(); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	check.Must(t, (&RegistrarRules{Rules: []RegistrarRule{good, pods}, Serial: 1}).check())
}
