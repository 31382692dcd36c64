package commands

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

type breakable struct {
	*custody.Memory
	unfit atomic.Bool
}

func (b *breakable) Versions(ctx context.Context) ([]custody.Version, error) {
	if b.unfit.Load() {
		return nil, custody.Unfit("somebody has replaced the key %s", b.Name())
	}
	return b.Memory.Versions(ctx)
}

func (b *breakable) role() daemon.Role {
	return kit.Role(evidence.PurposePolicyDecision, "policy", signer.NewRotation(b, 0, time.Now))
}

// TestUnfitKeyHidesNoOther: the other keys of the process are listed, published and certified. The unfit key is named
// with the reason, keeps its certificate, and is certified again once it can be read.
func TestUnfitKeyHidesNoOther(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t)
	bad, good := &breakable{Memory: kit.MemoryKey(t, "decision-key")}, kit.MemoryKey(t, "grant-key")
	at := kit.Publish(t, "control", bad.role(), kit.Grant(good))
	d.Must(t, "certify", "--from", at)
	before, err := keyring.ReadPublished(t.Context(), []string{at})
	check.Must(t, err)
	bad.unfit.Store(true)
	check.Must(t, good.Rotate())

	const why = "the key decision-key of the role policy_decision cannot be read: somebody has replaced the key " +
		"decision-key (custody_unfit)"
	for _, tt := range []struct {
		verb  string
		shows bool
	}{{"list", true}, {"publish", true}, {"publish --jwks", false}} { // a set without one key would be taken for the whole
		e := kit.Mediator(t, strings.Fields("keys "+tt.verb+" --from "+at)...).Refused(why)
		if strings.Contains(e.Out, "grant-key:v2") != tt.shows {
			t.Errorf("keys %s: %s", tt.verb, e.Out)
		}
	}
	d.Do(t, "certify", "--from", at).Refused(why)
	d.WantKeys(t, "decision-key:v1", "grant-key:v1", "grant-key:v2")

	follow := func() {
		t.Helper()
		roles := before.RolesByEndpoint[at]
		check.Must(t, d.Registry(t).CertifyDue(t.Context(), at, roles, keyring.Declaration{}, zap.NewNop()))
	}
	check.Must(t, good.Rotate())
	follow()
	d.WantKeys(t, "decision-key:v1", "grant-key:v1", "grant-key:v2", "grant-key:v3")
	bad.unfit.Store(false)
	check.Must(t, bad.Rotate())
	follow()
	d.WantKeys(t, "decision-key:v1", "decision-key:v2", "grant-key:v1", "grant-key:v2", "grant-key:v3")
}
