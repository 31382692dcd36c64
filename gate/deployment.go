package gate

import (
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
)

// deployment remembers the last verified certificate, because every chain of a deployment carries the same one: the
// same bytes, under the same trust, within the certificate's times.
type deployment struct{ last atomic.Pointer[certified] }

type certified struct {
	token       string
	trust       *evidence.Trust
	from, until time.Time
}

// verify verifies a deployment certificate against the manifest behind s, which never changes.
func (d *deployment) verify(v *evidence.Verifier, token string, s *policy.Strict) error {
	trust, now := v.Trust(), v.Now()
	if k := d.last.Load(); k != nil && k.token == token && k.trust == trust && !now.Before(k.from) &&
		now.Before(k.until) {
		return nil
	}
	c, err := policy.VerifyCertificate(v, token, s)
	if err != nil {
		return err
	}
	if v.Trust() != trust { // replaced during the verification
		return nil
	}
	// No tolerance for the clock: near the edge the certificate is verified each time.
	d.last.Store(&certified{token: token, trust: trust, from: now, until: s.Until(c)})
	return nil
}
