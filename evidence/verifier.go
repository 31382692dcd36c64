package evidence

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// Expected is what a verifier demands of an artifact. Issuers, Audiences, KeyIDs and MaxAge have no default: left
// empty, they refuse every artifact.
type Expected struct {
	Issuers   []string
	Audiences []string
	// KeyIDs holds key ids ("runtime-key:v3"), key names ("runtime-key") for all certified versions, or names with
	// [AnySegment] ("runtime-key/*").
	KeyIDs []string
	// MaxAge bounds the time since iat.
	MaxAge time.Duration
	// Custody lists the accepted custody classes; empty accepts any.
	Custody []string
	// RequireNonExportable refuses a key that its own claims or its certificate call exportable.
	RequireNonExportable bool
	// Secrets demands that one of these authenticates the artifact (HS256) instead of a certified key. KeyIDs must name
	// it too, and the kind must allow it.
	Secrets []Secret
	// RequirePostQuantum demands a second signature by a pinned ML-DSA-65 key. Only root keys sign twice.
	RequirePostQuantum bool
}

// Tolerated clock differences.
const (
	DefaultSkew = 2 * time.Second // the default
	MaxSkew     = time.Minute     // more would undo the bounds on the age of artifacts
)

// VerifierOptions: Now is required.
type VerifierOptions struct {
	Now func() time.Time
	// at most MaxSkew; zero means DefaultSkew
	Skew time.Duration
}

// Verifier opens artifacts. It is safe for concurrent use.
type Verifier struct {
	trust atomic.Pointer[Trust]
	now   func() time.Time
	skew  time.Duration
}

// NewVerifier refuses a skew below 0 or above [MaxSkew].
func NewVerifier(t *Trust, o VerifierOptions) (*Verifier, error) {
	if o.Now == nil || t == nil {
		return nil, errors.New("evidence: a verifier needs a trust bundle and a clock")
	}
	if o.Skew < 0 || o.Skew > MaxSkew {
		return nil, fmt.Errorf("evidence: the clock difference %s is not between 0s and %s", o.Skew, MaxSkew)
	}
	o.Skew = cmp.Or(o.Skew, DefaultSkew)
	v := &Verifier{now: o.Now, skew: o.Skew}
	v.trust.Store(t)
	return v, nil
}

// SetTrust replaces the trust for calls that start afterwards.
func (v *Verifier) SetTrust(t *Trust) { v.trust.Store(t) }

// Trust may differ between two calls: see SetTrust.
func (v *Verifier) Trust() *Trust { return v.trust.Load() }

// Now reads the verifier's clock, without the skew.
func (v *Verifier) Now() time.Time { return v.now() }

// Skew is the tolerated clock difference, never zero.
func (v *Verifier) Skew() time.Duration { return v.skew }

type moment struct {
	now  time.Time
	skew time.Duration
}

func (v *Verifier) moment() moment { return moment{v.now(), v.skew} }

// decode accepts a payload only as [Sign] writes it.
func decode[C any](k Kind[C], payload []byte) (*C, error) {
	c := new(C)
	if err := k.codec().Decode(payload, c); err != nil {
		return nil, refusal.New("artifact_malformed", "the claims of the %s %w", k.Typ, err)
	}
	if err := k.registered(c).check(k.Typ, k.MaxLifetime); err != nil {
		return nil, err
	}
	if err := k.check(c); err != nil {
		return nil, err
	}
	return c, nil
}

// admits checks registered claims and key. what names the artifact in a refusal.
func (e Expected) admits(what, kid string, r Registered, key KeyClaims, at moment) error {
	if len(e.Issuers) == 0 || len(e.Audiences) == 0 || len(e.KeyIDs) == 0 || e.MaxAge <= 0 {
		return refusal.New("not_allowed",
			"the policy for the %s accepts nothing, because it lists no issuers, audiences or key ids, or "+
				"sets no maximum age", what)
	}
	iat, exp := time.Unix(r.IssuedAt, 0), time.Unix(r.Expires, 0)
	now, skew := at.now, at.skew
	switch {
	case !slices.Contains(e.Issuers, r.Issuer):
		return refusal.New("not_allowed", "the %s is issued by %q, which the policy does not allow", what, r.Issuer)
	case !slices.Contains(e.Audiences, r.Audience):
		return refusal.New("not_allowed", "the %s is meant for %q, which is not an audience here", what, r.Audience)
	case !MatchKeyID(e.KeyIDs, kid):
		return refusal.New("not_allowed", "the %s is signed by key %s, which the policy does not allow", what, kid)
	case now.Add(skew).Before(iat):
		return refusal.New("clock_skew", "the %s is issued %s in the future", what, iat.Sub(now).Round(time.Second))
	case !now.Add(-skew).Before(exp):
		return refusal.New("expired", "the %s expired %s ago", what, now.Sub(exp).Round(time.Second))
	case now.Sub(iat) > e.MaxAge+skew:
		return refusal.New("expired", "the %s is %s old; at most %s is accepted", what, now.Sub(iat).Round(time.Second),
			e.MaxAge)
	case e.RequireNonExportable && key.KeyExportable:
		return refusal.New("key_custody", "the %s rests on a key that can be exported", what)
	case len(e.Custody) > 0 && !slices.Contains(e.Custody, key.KeyCustody):
		return refusal.New("key_custody", "the %s rests on a key in custody %q, which the policy does not allow", what,
			key.KeyCustody)
	}
	return nil
}

// MatchKeyID reports whether allowed contains kid, or matches its key name (see [MatchName]).
func MatchKeyID(allowed []string, kid string) bool {
	return slices.Contains(allowed, kid) || MatchName(allowed, KeyName(kid))
}

// AnySegment at the end of an entry of a policy's list matches any one segment: pod/agents/* matches pod/agents/1, but
// neither pod/agents nor pod/agents/1/2.
const AnySegment = "/*"

// MatchName reports whether allowed contains name, or an entry with [AnySegment] that matches it.
func MatchName(allowed []string, name string) bool {
	if slices.Contains(allowed, name) {
		return true
	}
	i := strings.LastIndex(name, "/")
	return i > 0 && i < len(name)-1 && slices.Contains(allowed, name[:i]+AnySegment)
}

// KeyName returns a key id without its version (":v" and a number).
func KeyName(kid string) string {
	name, _ := cutKeyID(kid)
	return name
}

// KeyVersion returns 0 for a kid without a version.
func KeyVersion(kid string) int {
	_, version := cutKeyID(kid)
	return version
}

// cutKeyID returns version 0 if there is none.
func cutKeyID(kid string) (name string, version int) {
	if i := strings.LastIndex(kid, ":v"); i > 0 {
		if n, err := strconv.ParseUint(kid[i+2:], 10, 31); err == nil {
			return kid[:i], int(n)
		}
	}
	return kid, 0
}

// KeyIDOf returns a token's unverified kid.
func KeyIDOf(token string) string {
	head, _, _ := strings.Cut(token, ".")
	raw, err := decodeStrict(head)
	if err != nil {
		return ""
	}
	var h header
	if headerCodec.Decode(raw, &h) != nil {
		return ""
	}
	return h.Kid
}

// UnverifiedClaims checks only the form of a token. Use [Open] or [OpenMAC] before relying on it.
func UnverifiedClaims[C any](k Kind[C], token string) (C, error) {
	var zero C
	read := func() (parsed, error) { return parse(token, k.alg, k.Typ, k.maxToken) }
	if k.rooted() {
		read = func() (parsed, error) { return parseRooted(token, k.Typ, k.maxToken) }
	}
	p, err := read()
	if err != nil {
		return zero, err
	}
	c, err := decode(k, p.payload)
	if err != nil {
		return zero, err
	}
	return *c, nil
}
