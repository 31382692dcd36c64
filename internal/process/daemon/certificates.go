package daemon

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
)

// certificateSettle is the time for which the bundle must have certified a new key version before the version signs.
// Verifiers that ask for signatures say which versions they accept. An API cannot say so: it has this long to read the
// bundle again (docs/api-owners.md).
const certificateSettle = 2 * time.Second

// CertificateFollower makes the process's roles sign only with key versions that the trust bundle certifies.
type CertificateFollower struct {
	path      string
	roots     []evidence.Root
	roles     []Role
	verifying *TrustFollowers // what this process verifies by; its roles sign with no version that is not known there
	log       *zap.Logger

	followed atomic.Pointer[followedBundle] // nil until the roles follow one
}

// followedBundle is a trust bundle that was read.
type followedBundle struct {
	trust *evidence.Trust
	hash  string
	full  float64 // see [evidence.Bundle.Full]
}

// WaitForCertificates waits for a trust bundle that certifies the key of each role: at the first start the security
// team can only certify keys that exist. A process that verifies reads its trust afterwards, so that it accepts what it
// signs from the first post on.
func (p *Process) WaitForCertificates(ctx context.Context, c config.Trust) (*CertificateFollower, error) {
	f := &CertificateFollower{path: c.Bundle, roots: p.Roots, roles: p.Roles, verifying: &p.Trust, log: p.Log}
	p.certificates.Store(f)
	_, err := WaitFor(ctx, p, "a trust bundle that certifies this process's keys", func() (struct{}, error) {
		return struct{}{}, f.follow(ctx)
	})
	return f, err
}

// Watch makes the trusts of this process, and then its roles, follow the bundle until ctx ends. If a bundle certifies
// no version of a role's key, the roles keep their versions; verifiers apply the new bundle all the same. Watch logs
// each error once.
func (f *CertificateFollower) Watch(ctx context.Context) {
	said := ""
	for range files.Watch(ctx, f.path, trustPoll) {
		f.verifying.follow()
		switch err := f.follow(ctx); {
		case err == nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			f.log.Error("this process's keys sign as the trust bundle before said", zap.Error(err))
		}
	}
}

// follow makes the roles follow the bundle if it is new.
func (f *CertificateFollower) follow(ctx context.Context) error {
	next, err := f.read()
	if err != nil || next == nil {
		return err
	}
	for _, r := range f.roles {
		if err := certifies(ctx, next.trust, r); err != nil {
			return err
		}
	}
	for _, r := range f.roles {
		r.Key.Follow(next.trust)
	}
	f.followed.Store(next)
	return nil
}

// read returns the bundle by which the process verifies or, if it verifies nothing, that of the file; nil if the roles
// follow it.
func (f *CertificateFollower) read() (*followedBundle, error) {
	last := f.followed.Load()
	if taken, verifies := f.verifying.taken(); verifies {
		if taken == nil || last != nil && taken.hash == last.hash {
			return nil, nil
		}
		return taken, nil
	}
	b, raw, err := config.ReadBundle(f.path)
	if err != nil {
		return nil, err
	}
	hash := evidence.HashBytes(raw)
	if last != nil && hash == last.hash {
		return nil, nil
	}
	trust, err := evidence.NewTrust(f.roots, b, evidence.SignerPolicy{})
	if err != nil {
		return nil, fmt.Errorf("trust bundle %s: %w", f.path, err)
	}
	return &followedBundle{trust, hash, b.Full()}, nil
}

// certifies fails unless trust certifies a version of the role's key.
func certifies(ctx context.Context, trust *evidence.Trust, r Role) error {
	versions, err := r.Key.Versions(ctx)
	if err != nil {
		return err
	}
	for _, c := range trust.Certified() {
		same := func(v custody.Version) bool {
			return !c.Revoked && v.KeyID() == c.Certificate.SubjectKeyID && v.Public().Equal(c.Public)
		}
		if slices.ContainsFunc(versions, same) {
			return nil
		}
	}
	return fmt.Errorf("key %s (%s): %w", r.Key.Name(), r.Purpose, await.ErrPending)
}
