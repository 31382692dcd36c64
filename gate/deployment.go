package gate

import (
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
)

// deployment remembers the certificate that was verified last: a deployment has one, and every chain carries it. What it remembers
// holds for the same bytes, under the same trust, and within the certificate's own times; anything else is verified from the start.
type deployment struct{ last atomic.Pointer[certified] }

type certified struct {
	token       string
	trust       *evidence.Trust
	from, until time.Time
}

// verify verifies a deployment certificate against the manifest behind s, which is the same for every call.
func (d *deployment) verify(v *evidence.Verifier, token string, s *policy.Strict) error {
	trust, now := v.Trust(), v.Now()
	if k := d.last.Load(); k != nil && k.token == token && k.trust == trust && !now.Before(k.from) && now.Before(k.until) {
		return nil
	}
	c, err := policy.VerifyCertificate(v, token, s)
	if err != nil {
		return err
	}
	if v.Trust() != trust { // replaced meanwhile: nobody knows under which of the two it was verified
		return nil
	}
	// Without the tolerated clock difference: at the edge the certificate is verified each time.
	d.last.Store(&certified{token: token, trust: trust, from: now, until: s.Until(c)})
	return nil
}
