package daemon

import (
	"cmp"
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
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/files"
)

// certificateSettle is the time between the certificate of a new key version and its first signature. An API, which
// cannot say which versions it accepts, has this long to read the bundle again (docs/api-owners.md). It is longer than
// [files.Unwatched].
const certificateSettle = 2 * time.Second

// certificateFollower makes the process's roles sign only with key versions that the trust bundle certifies.
type certificateFollower struct {
	path      string
	roots     []evidence.Root
	roles     []Role
	verifying *trustFollowers // the roles sign with no version that is unknown there
	log       *zap.Logger

	followed atomic.Pointer[followedBundle] // nil until the roles follow one
}

type followedBundle struct {
	trust *evidence.Trust
	hash  string
	full  float64 // see [evidence.Bundle.Full]
}

// WaitForCertificates waits for a trust bundle that certifies the key of each role: before the first start the security
// team has no keys to certify. A process that verifies reads its trust afterwards, so it accepts its own signatures.
func (p *Process) WaitForCertificates(ctx context.Context, c config.Trust) (*certificateFollower, error) {
	f := &certificateFollower{path: c.Bundle, roots: p.Roots, roles: p.Roles, verifying: &p.Trust, log: p.Log}
	p.certificates.Store(f)
	const what = "a trust bundle that certifies this process's keys"
	return f, p.WaitFor(ctx, what, []string{c.Bundle}, func() error { return f.follow(ctx) })
}

// Watch makes the trusts of this process, and then its roles, follow the bundle until ctx ends. If a bundle certifies
// no version of a role's key, the roles keep their versions, but the trusts still take the bundle.
func (f *certificateFollower) Watch(ctx context.Context) {
	files.Follow(ctx, []string{f.path}, func() error {
		return cmp.Or(f.verifying.follow(), f.follow(ctx)) // both in any case
	}, func(err error) {
		f.log.Error("this process's keys still sign by the previous trust bundle", zap.Error(err))
	})
}

// follow makes the roles follow the bundle if it is new.
func (f *certificateFollower) follow(ctx context.Context) error {
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

// read returns the bundle by which the process verifies or, if it verifies nothing, the one in the file. It returns nil
// if the roles already follow that bundle.
func (f *certificateFollower) read() (*followedBundle, error) {
	last := f.followed.Load()
	if taken, verifies := f.verifying.taken(); verifies {
		if taken == nil || last != nil && taken.hash == last.hash {
			return nil, nil
		}
		return taken, nil
	}
	return readBundle(f.path, f.roots, cmp.Or(last, new(followedBundle)).hash)
}

// readBundle reads and verifies a bundle, or returns nil if it has the hash known.
func readBundle(path string, roots []evidence.Root, known string) (*followedBundle, error) {
	b, raw, err := deployed.ReadBundle(path)
	if err != nil {
		return nil, err
	}
	hash := evidence.HashBytes(raw)
	if hash == known {
		return nil, nil
	}
	trust, err := evidence.NewTrust(roots, b, evidence.SignerPolicy{})
	if err != nil {
		return nil, fmt.Errorf("trust bundle %s: %w", path, err)
	}
	return &followedBundle{trust, hash, b.Full()}, nil
}

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
