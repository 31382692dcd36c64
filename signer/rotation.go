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

// ErrNotCertified is the cause of a refusal to sign with a key of which no version is certified.
var ErrNotCertified = errors.New("no version of the key is certified")

// Rotation is a key that signs only with versions that its verifiers accept. A custody makes a new version at any time.
// Verifiers refuse its signatures until the registry has certified it and they have read the certificate. A verifier
// that asks for a signature says which versions it accepts ([evidence.WithAccepted]), and gets none by any other. For
// the verifiers that cannot say so, such as APIs, a new version also signs only once it has been certified for a while.
// A Rotation is safe for concurrent use.
type Rotation struct {
	custody.Key
	settle time.Duration
	now    func() time.Time

	certified atomic.Pointer[map[string]certificate] // by kid

	mu     sync.Mutex           // guards behind
	behind map[string]time.Time // by kid: when an older version last signed for a verifier that did not accept the newest
}

// certificate is what is known of the certificate of one version.
type certificate struct {
	public  string
	since   time.Time // when it was first seen; zero for those that were there at the start
	expires time.Time
}

// NewRotation makes a Rotation over key. settle is for how long a version has to be certified before it signs.
func NewRotation(key custody.Key, settle time.Duration, now func() time.Time) *Rotation {
	return &Rotation{Key: key, settle: settle, now: now, behind: make(map[string]time.Time)}
}

// Follow takes over which versions are certified. What is certified at the first call is held to have been so before.
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

// Current returns the newest version that the verifiers accept and that has been certified for long enough. Where there
// is none, because the earlier ones were retired at once, it is the one that has been certified the longest.
func (r *Rotation) Current(ctx context.Context) (custody.Version, error) {
	if _, err := r.Key.Current(ctx); err != nil { // which has the custody asked anew
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

// note remembers that v signs for a verifier, if it is older than what signs for others.
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

// inFlight is longer than any artifact is good that one post rests on.
const inFlight = 10 * time.Minute

// Signs returns the version that signs now, by what is known of the key, and does not use the key. Where an older one
// has signed for a verifier that did not accept that version yet, it is the oldest of these, for as long as what it has
// signed can be good: nobody is to retire it.
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

// choose returns the version of versions, which are oldest first, that signs for the verifiers that ctx speaks of.
func (r *Rotation) choose(ctx context.Context, versions []custody.Version) (best custody.Version, err error) {
	refused := ""
	var since time.Time
	for _, v := range slices.Backward(versions) {
		c, certified := r.certificate(v)
		switch {
		case !certified:
		case !evidence.IsAccepted(ctx, v.KeyID()):
			refused = v.KeyID()
		case r.now().Sub(c.since) >= r.settle:
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
			"no verifier accepts a certified version of the key %s, such as %s: a process has an old trust bundle", r.Name(), refused)
	}
	return best, custody.Unavailable(ErrNotCertified,
		"no version of the key %s is certified in the trust bundle: certify it (mediator keys certify)", r.Name())
}

// certificate returns what is known of the certificate of v; ok is false if there is none, or none that holds now.
func (r *Rotation) certificate(v custody.Version) (c certificate, ok bool) {
	if certified := r.certified.Load(); certified != nil {
		c = (*certified)[v.KeyID()]
	}
	return c, c.public == string(v.Public()) && r.now().Before(c.expires)
}
