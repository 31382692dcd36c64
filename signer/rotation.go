package signer

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
)

// ErrNotCertified is the cause of a refusal to sign with a key of which no version is certified.
var ErrNotCertified = errors.New("no version of the key is certified")

// Rotation is a key that signs with certified versions alone. A custody makes a new version at any time; what it signed would be refused
// until the registry has certified it and every verifier has the certificate. So a new version signs once it has been certified for a
// while, and the one before it until then. It is safe for concurrent use.
type Rotation struct {
	custody.Key
	settle time.Duration
	now    func() time.Time

	certified atomic.Pointer[map[string]certificate] // by kid
}

// certificate is what is known of the certificate of one version.
type certificate struct {
	public  string
	since   time.Time // when it was first seen; zero for those that were there at the start
	expires time.Time
}

// NewRotation makes a Rotation over key. settle is for how long a version has to be certified before it signs.
func NewRotation(key custody.Key, settle time.Duration, now func() time.Time) *Rotation {
	return &Rotation{Key: key, settle: settle, now: now}
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

// Current returns the newest version that has been certified for long enough. Where there is none, because the earlier ones were retired
// at once, it is the one that has been certified the longest.
func (r *Rotation) Current(ctx context.Context) (custody.Version, error) {
	if _, err := r.Key.Current(ctx); err != nil { // which has the custody asked anew
		return custody.Version{}, err
	}
	return r.Signs(ctx)
}

// Signs returns the version that Current would return by what is known of the key, and does not use the key.
func (r *Rotation) Signs(ctx context.Context) (custody.Version, error) {
	versions, err := r.Versions(ctx)
	if err != nil {
		return custody.Version{}, err
	}
	certified := r.certified.Load()
	if certified == nil {
		certified = &map[string]certificate{}
	}
	now := r.now()
	var best custody.Version
	var since time.Time
	for _, v := range slices.Backward(versions) {
		c := (*certified)[v.KeyID()]
		switch {
		case c.public != string(v.Public()) || !now.Before(c.expires):
		case now.Sub(c.since) >= r.settle:
			return v, nil
		case best.KeyID() == "" || c.since.Before(since):
			best, since = v, c.since
		}
	}
	if best.KeyID() == "" {
		return best, custody.Unavailable(ErrNotCertified, "no version of the key %s is certified in the trust bundle: certify it (mediator keys certify)", r.Name())
	}
	return best, nil
}
