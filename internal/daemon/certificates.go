package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/every"
)

// certificateSettle is for how long a new key version has to be certified before it signs. Every verifier has looked at the trust bundle
// by then; an API with a copy of its own has to fetch it as often (docs/api-owners.md).
const certificateSettle = 2 * time.Second

// Certificates makes the process's roles sign with the versions of their keys that the trust bundle certifies.
type Certificates struct {
	path  string
	roots []evidence.Root
	roles []Role
	log   *zap.Logger
	raw   string // the content that they follow
}

// OpenCertificates waits for a trust bundle that certifies each role's key: at the first start the security team can only certify keys
// that exist.
func (p *Process) OpenCertificates(ctx context.Context, c config.Trust) (*Certificates, error) {
	f := &Certificates{path: c.Bundle, roots: p.Roots, roles: p.Roles, log: p.Log}
	_, err := await.For(ctx, p.Log, "a trust bundle that certifies this process's keys", func() (struct{}, error) {
		return struct{}{}, f.read(ctx)
	})
	return f, err
}

// Watch keeps the roles to the bundle until ctx ends. A bundle that certifies no version of a role's key changes nothing here: whoever
// verifies goes by it all the same. What is wrong is said once.
func (f *Certificates) Watch(ctx context.Context) {
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

// read looks at the bundle file, if it is another one than before.
func (f *Certificates) read(ctx context.Context) error {
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
	return nil
}

// certifies demands that trust certifies a version of the role's key.
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
