// Package custodytest is the behaviour that every custody backend must show.
package custodytest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
)

// Rotator is a key that can be given a new version.
type Rotator interface {
	custody.Key
	Rotate() error
}

// Run runs the suite over fresh keys, which open makes by their names.
func Run(t *testing.T, open func(t *testing.T, name string) Rotator) {
	ctx := context.Background()
	current := func(t *testing.T, k custody.Key) custody.Version {
		t.Helper()
		v, err := k.Current(ctx)
		check.Must(t, err)
		return v
	}
	t.Run("a signature verifies with the version's public key", func(t *testing.T) {
		v := current(t, open(t, "role-key"))
		if v.KeyID() != "role-key:v1" {
			t.Errorf("kid %s", v.KeyID())
		}
		sig, err := v.Sign(ctx, []byte("message"))
		if err != nil || !ed25519.Verify(v.Public(), []byte("message"), sig) {
			t.Errorf("%x, %v", sig, err)
		}
	})
	t.Run("nothing is not signed", func(t *testing.T) {
		if _, err := current(t, open(t, "k")).Sign(ctx, nil); err == nil {
			t.Error("the empty message was signed")
		}
		if _, err := (custody.Version{}).Sign(ctx, []byte("m")); err == nil {
			t.Error("the zero version signed")
		}
	})
	t.Run("a caller that has gone gets no signature", func(t *testing.T) {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := current(t, open(t, "k")).Sign(gone, []byte("m")); err == nil {
			t.Error("signed")
		}
	})
	t.Run("rotation adds a version and keeps the old one", func(t *testing.T) {
		k := open(t, "k")
		old := current(t, k)
		check.Must(t, k.Rotate())
		fresh := current(t, k)
		if fresh.KeyID() != "k:v2" || fresh.Public().Equal(old.Public()) {
			t.Errorf("the new version is %s", fresh.KeyID())
		}
		if _, err := old.Sign(ctx, []byte("m")); err != nil {
			t.Errorf("a signature that was under way fails: %v", err)
		}
		versions, err := k.Versions(ctx)
		if err != nil || len(versions) != 2 || versions[0].KeyID() != "k:v1" || versions[1].KeyID() != "k:v2" {
			t.Errorf("%v, %v", versions, err)
		}
		set, err := custody.JWKS(ctx, k)
		if err != nil || len(set.Keys) != 2 || !set.Keys[0].IsPublic() || set.Keys[1].KeyID != "k:v2" {
			t.Errorf("%v, %v", set, err)
		}
	})
	t.Run("many callers at once, while the key rotates", func(t *testing.T) {
		k := open(t, "k")
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				if i%8 == 0 {
					if err := k.Rotate(); err != nil {
						t.Error(err)
					}
				}
				v := current(t, k)
				message := fmt.Appendf(nil, "message %d", i)
				sig, err := v.Sign(ctx, message)
				if err != nil || !ed25519.Verify(v.Public(), message, sig) {
					t.Errorf("%s: %v", v.KeyID(), err)
				}
			})
		}
		all.Wait()
	})
	t.Run("what can be seen of a good key speaks for it", func(t *testing.T) {
		seen := make(map[string]look.Result)
		for _, l := range open(t, "k").Observe(ctx, 0) {
			if seen[l.Name] = l.Result; l.Seen == "" || l.Purpose != "" {
				t.Errorf("%+v", l)
			}
		}
		if len(seen) != 2 || seen[look.Custody] != look.Holds || seen[look.Apart] != look.Holds {
			t.Errorf("%v", seen)
		}
	})
	t.Run("properties name a protected custody", func(t *testing.T) {
		p := open(t, "k").Properties()
		if p.Exportable || p.Custody != custody.ExternalMediator && p.Custody != custody.HardwareBacked {
			t.Errorf("%+v", p)
		}
	})
}
