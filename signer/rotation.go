package signer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
)

// ErrNotCertified is why a key without a certified version does not sign.
var ErrNotCertified = errors.New("no version of the key is certified")

// Rotation signs only with key versions that verifiers accept. A custody may make a new version at any time, which
// verifiers refuse until they have its certificate. A verifier that asks for a signature may name the versions it
// accepts ([evidence.WithAccepted]); for others a new version signs after a settling time. A Rotation is safe for
// concurrent use.
type Rotation struct {
	custody.Key
	settle atomic.Int64 // a time.Duration
	now    func() time.Time

	certified atomic.Pointer[map[string]certificate] // by kid

	mu     sync.Mutex           // guards behind
	behind map[string]time.Time // by kid: when an older version last signed in place of an unaccepted newer one
}

type certificate struct {
	public  string
	since   time.Time // first seen; zero if present at the start
	expires time.Time
}

// NewRotation makes a Rotation over key. A version signs once it has been certified for settle.
func NewRotation(key custody.Key, settle time.Duration, now func() time.Time) *Rotation {
	r := &Rotation{Key: key, now: now, behind: make(map[string]time.Time)}
	r.SettleFor(settle)
	return r
}

// SettleFor replaces the settling time.
func (r *Rotation) SettleFor(d time.Duration) { r.settle.Store(int64(d)) }

// Follow applies the certified versions of trust. The first call's versions need not settle.
func (r *Rotation) Follow(trust *evidence.Trust) {
	old := r.certified.Load()
	fresh := make(map[string]certificate)
	for _, c := range trust.Certified() {
		if c.Revoked {
			continue
		}
		cert := certificate{public: string(c.Public), expires: time.Unix(c.Certificate.Expires, 0)}
		if old != nil {
			if before := (*old)[c.Certificate.SubjectKeyID]; before.public == cert.public {
				cert.since = before.since
			} else {
				cert.since = r.now()
			}
		}
		fresh[c.Certificate.SubjectKeyID] = cert
	}
	r.certified.Store(&fresh)
}

// Current returns the newest version that verifiers accept and that has settled. If none has, because earlier versions
// were retired at once, it returns the one certified longest.
func (r *Rotation) Current(ctx context.Context) (custody.Version, error) {
	if _, err := r.Key.Current(ctx); err != nil { // makes the custody look again
		return custody.Version{}, err
	}
	versions, err := r.Versions(ctx)
	if err != nil {
		return custody.Version{}, err
	}
	v, err := r.choose(ctx, versions)
	if _, known := evidence.Accepted(ctx); known && err == nil {
		r.note(versions, v)
	}
	return v, err
}

func (r *Rotation) note(versions []custody.Version, v custody.Version) {
	newest, err := r.choose(context.Background(), versions)
	if err != nil || newest.KeyID() == v.KeyID() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.behind[v.KeyID()] = r.now()
	for kid, last := range r.behind {
		if r.now().Sub(last) >= inFlight {
			delete(r.behind, kid)
		}
	}
}

// inFlight is longer than the life of any artifact behind a post.
const inFlight = 10 * time.Minute

// Signs returns the signing version without using the key. While artifacts of older versions may be in flight, it
// returns the oldest of these: do not retire it yet.
func (r *Rotation) Signs(ctx context.Context) (custody.Version, error) {
	versions, err := r.Versions(ctx)
	if err != nil {
		return custody.Version{}, err
	}
	v, err := r.choose(ctx, versions)
	if err != nil {
		return v, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, old := range versions {
		last, ok := r.behind[old.KeyID()]
		_, certified := r.certificate(old)
		if old.KeyID() == v.KeyID() || ok && certified && r.now().Sub(last) < inFlight {
			return old, nil
		}
	}
	return v, nil
}

// choose returns the version that signs for the verifiers of ctx. versions are oldest first.
func (r *Rotation) choose(ctx context.Context, versions []custody.Version) (best custody.Version, err error) {
	refused := ""
	var since time.Time
	for _, v := range slices.Backward(versions) {
		c, certified := r.certificate(v)
		switch {
		case !certified:
		case !evidence.IsAccepted(ctx, v.KeyID()):
			refused = v.KeyID()
		case r.now().Sub(c.since) >= time.Duration(r.settle.Load()):
			return v, nil
		case best.KeyID() == "" || c.since.Before(since):
			best, since = v, c.since
		}
	}
	switch {
	case best.KeyID() != "":
		return best, nil
	case refused != "":
		return best, custody.Unavailable(ErrNotCertified,
			"no verifier accepts a certified version of the key %s, such as %s: a process has an old trust bundle", r.Name(),
			refused)
	}
	return best, custody.Unavailable(ErrNotCertified,
		"no version of the key %s is certified in the trust bundle: certify it (mediator keys certify)", r.Name())
}

func (r *Rotation) certificate(v custody.Version) (c certificate, ok bool) {
	if certified := r.certified.Load(); certified != nil {
		c = (*certified)[v.KeyID()]
	}
	return c, c.public == string(v.Public()) && r.now().Before(c.expires)
}
