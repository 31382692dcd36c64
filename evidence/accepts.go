package evidence

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
)

// maxAccepted bounds the versions that [Verifier.Accepts] returns.
const maxAccepted = 256

// Accepts returns the ids of the key versions that v now accepts for a purpose and a policy, newest first: see
// [WithAccepted].
func (v *Verifier) Accepts(purpose string, want Expected) []string {
	trust, at := v.Trust(), v.moment()
	kids := []string{}
	for kid, s := range trust.signers {
		if s.cert.Purposes[0] != purpose || !MatchKeyID(want.KeyIDs, kid) {
			continue
		}
		if _, err := trust.signer(kid, "", purpose, at); err == nil {
			kids = append(kids, kid)
		}
	}
	slices.SortFunc(kids, func(a, b string) int {
		return cmp.Or(cmp.Compare(KeyVersion(b), KeyVersion(a)), strings.Compare(a, b))
	})
	return kids[:min(len(kids), maxAccepted)]
}

// Knows reports whether v's bundle certifies kid and has not revoked it.
func (v *Verifier) Knows(kid string) bool {
	t := v.Trust()
	return t.signers[kid] != nil && !t.revocations.has(kid)
}

type acceptedKey struct{}

// WithAccepted returns a context for signing, whose verifiers accept only the key versions kids.
func WithAccepted(ctx context.Context, kids []string) context.Context {
	return context.WithValue(ctx, acceptedKey{}, kids)
}

// Accepted returns the kids of [WithAccepted]. known is false if ctx has none.
func Accepted(ctx context.Context) (kids []string, known bool) {
	kids, known = ctx.Value(acceptedKey{}).([]string)
	return kids, known
}

// IsAccepted reports true for every kid if ctx restricts nothing.
func IsAccepted(ctx context.Context, kid string) bool {
	kids, known := Accepted(ctx)
	return !known || slices.Contains(kids, kid)
}

// errNewer marks a version newer than all certified ones of its key.
var errNewer = errors.New("of which only earlier versions have a custody certificate")

// Stale marks a refusal of a rotated key as one that a retry can mend: the trust bundle here may lack the new
// certificate.
func Stale(err error) error {
	if !errors.Is(err, errNewer) {
		return err
	}
	return refusal.Later{
		Refusal: refusal.New("trust_stale", "%w: the trust bundle here may lack the new certificate", err), Seconds: 2}
}
