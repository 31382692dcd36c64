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
	"github.com/actionproof/mediator/internal/every"
)

// certificateSettle is how long the bundle must have certified a new key version before the version signs. By then
// every verifier has read the trust bundle again. An API with a copy of its own has to fetch it as often
// (docs/api-owners.md).
const certificateSettle = 2 * time.Second

// CertificateFollower makes the process's roles sign only with key versions that the trust bundle certifies.
type CertificateFollower struct {
	path  string
	roots []evidence.Root
	roles []Role
	log   *zap.Logger
	raw   string // content of the bundle that the roles follow

	followed atomic.Pointer[followedBundle] // nil until the roles follow one
}

// followedBundle is the bundle that the roles follow.
type followedBundle struct {
	trust *evidence.Trust
	hash  string
}

// WaitForCertificates waits for a trust bundle that certifies the key of each role. It has to wait, because at the first
// start the security team can only certify keys that exist.
func (p *Process) WaitForCertificates(ctx context.Context, c config.Trust) (*CertificateFollower, error) {
	f := &CertificateFollower{path: c.Bundle, roots: p.Roots, roles: p.Roles, log: p.Log}
	p.certificates.Store(f)
	_, err := WaitFor(ctx, p, "a trust bundle that certifies this process's keys", func() (struct{}, error) {
		return struct{}{}, f.read(ctx)
	})
	return f, err
}

// Watch makes the roles follow the bundle until ctx ends. If a bundle certifies no version of a role's key, the roles
// keep their versions; verifiers apply the new bundle all the same. Watch logs each error once.
func (f *CertificateFollower) Watch(ctx context.Context) {
	said := ""
	for range every.Tick(ctx, trustPoll) {
		switch err := f.read(ctx); {
		case err == nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			f.log.Error("this process's keys sign as the trust bundle before said", zap.Error(err))
		}
	}
}

// read reads the bundle file and, if its content is new, makes the roles follow it.
func (f *CertificateFollower) read(ctx context.Context) error {
	b, raw, err := config.ReadBundle(f.path)
	if err != nil || string(raw) == f.raw {
		return err
	}
	trust, err := evidence.NewTrust(f.roots, b, evidence.SignerPolicy{})
	if err != nil {
		return fmt.Errorf("trust bundle %s: %w", f.path, err)
	}
	for _, r := range f.roles {
		if err := certifies(ctx, trust, r); err != nil {
			return err
		}
	}
	for _, r := range f.roles {
		r.Key.Follow(trust)
	}
	f.raw = string(raw)
	f.followed.Store(&followedBundle{trust, evidence.HashBytes(raw)})
	return nil
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
