package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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

type memoryOwner struct {
	keys    map[string]*custody.Memory
	retired []string
}

func newOwner(t *testing.T, keys ...string) *memoryOwner {
	o := &memoryOwner{keys: make(map[string]*custody.Memory)}
	for _, name := range keys {
		o.keys[name] = kit.MemoryKey(t, name)
	}
	return o
}

func (o *memoryOwner) Rotate(ctx context.Context, key string) (int, error) {
	k := o.keys[key]
	if k == nil {
		return 0, custody.Refused(nil, "there is no key %s", key)
	}
	if err := k.Rotate(); err != nil {
		return 0, err
	}
	versions, err := k.Versions(ctx)
	return len(versions), err
}

func (o *memoryOwner) Retire(_ context.Context, key string, oldest int) error {
	o.retired = append(o.retired, fmt.Sprintf("%s before %d", key, oldest))
	return nil
}

// The earlier versions of a key are retired only if every process is known to sign with the new one.
func TestRotateAllAndRetire(t *testing.T) {
	t.Parallel()
	const grantDone, proofDone = "grant-key before 2", "proof-key before 2"
	for name, tt := range map[string]struct {
		uncertified string // the process whose keys are not certified anew
		stopped     bool   // the process serve does not answer any more
		without     string // the key that its custody does not rotate
		notAsked    bool   // the process serve is not named
		retired     []string
		code, says  string
	}{
		"all sign with the new versions": {retired: []string{grantDone, proofDone}},
		"one does not": {uncertified: "serve", retired: []string{grantDone}, code: "version_unused",
			says: "signs with proof-key:v1"},
		"none does": {uncertified: "control and serve", code: "version_unused",
			says: "signs with grant-key:v1"},
		"one does not answer": {stopped: true, code: "version_unused", says: "does not say what it signs with"},
		"one was not asked": {notAsked: true, retired: []string{grantDone}, code: "version_unused",
			says: "no process of those that were asked signs with it"},
		"one cannot be rotated": {without: "grant-key", retired: []string{proofDone}, code: "custody_refused",
			says: "there is no key grant-key"},
	} {
		t.Run(name, func(t *testing.T) {
			d := kit.NewTeam(t)
			owner := newOwner(t, "grant-key", "proof-key")
			grant, proof := kit.Grant(owner.keys["grant-key"]), kit.Proof(owner.keys["proof-key"])
			control, serve := kit.Publish(t, "control", grant), kit.Publish(t, "serve", proof)
			follow := func(uncertified string) {
				d.Must(t, "certify", "--from", control, "--from", serve)
				if !strings.Contains(uncertified, "control") {
					grant.Key.Follow(d.Certified(t))
				}
				if !strings.Contains(uncertified, "serve") {
					proof.Key.Follow(d.Certified(t))
				}
			}
			follow("")
			delete(owner.keys, tt.without)

			r := keyring.Rotator{Owner: owner, From: []string{control, serve}, RetireAfter: time.Millisecond,
				CertifiedWithin: time.Millisecond, Done: func(keyring.Rotated) {}, Waiting: func() {}}
			if tt.notAsked {
				r.From = []string{control}
			}
			versions, err := r.Rotate(t.Context(), []string{"grant-key", "proof-key"})
			follow(tt.uncertified)
			if tt.stopped {
				check.Must(t, os.Remove(strings.TrimPrefix(serve, "unix:")))
			}
			err = errors.Join(err, r.RetireEarlier(t.Context(), versions))
			if !slices.Equal(owner.retired, tt.retired) {
				t.Errorf("retired %q, want %q", owner.retired, tt.retired)
			}
			if tt.code == "" {
				check.Must(t, err)
			} else {
				check.WantCode(t, err, tt.code, tt.says)
			}
		})
	}
}

func TestRotateAsksAgain(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t)
	owner := newOwner(t, "proof-key")
	proof := kit.Proof(owner.keys["proof-key"])
	at := kit.Publish(t, "serve", proof)
	d.Must(t, "certify", "--from", at)
	before := d.Certified(t)
	check.Must(t, owner.keys["proof-key"].Rotate())
	d.Must(t, "certify", "--from", at)
	proof.Key.Follow(d.Certified(t))
	asked := 0
	r := keyring.Rotator{Owner: owner, From: []string{at}, CertifiedWithin: time.Minute, RetireAfter: time.Millisecond,
		Done: func(keyring.Rotated) {}}
	r.Waiting = func() { asked++; proof.Key.Follow(before) }
	err := r.RetireEarlier(t.Context(), map[string]int{"proof-key": 2})
	check.WantCode(t, err, "version_unused")
	if len(owner.retired) != 0 || asked != 1 {
		t.Errorf("retired %q, waited %d times", owner.retired, asked)
	}
}

// Flags that exclude each other are refused before Vault is asked.
func TestRotateUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{}, {"key", "--all"}, {"key", "other"}, {"--all"}, {"key", "--retire-after", "10m"}, {"--all", "--from", "file:x"},
		{"--all", "--retire", "--from", "unix:/x"},
		{"key", "--retire", "--retire-after", "10m", "--from", "unix:/x"},
		{"key", "--retire-after", "-1s", "--from", "unix:/x"},
	} {
		kit.Mediator(t, append([]string{"keys", "rotate", "--address", "https://127.0.0.1:1", "--token-file", "absent"},
			args...)...).Misused()
	}
}

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
		// a set without one key would be taken for the whole
	}{{"list", true}, {"list --publication", true}, {"list --jwks", false}} {
		e := kit.Mediator(t, strings.Fields("keys "+tt.verb+" --from "+at)...).Refused(why)
		if strings.Contains(e.Out, "grant-key:v2") != tt.shows {
			t.Errorf("keys %s: %s", tt.verb, e.Out)
		}
	}
	d.Do(t, "certify", "--from", at).Refused(why)
	d.WantKeys(t, "decision-key:v1", "grant-key:v1", "grant-key:v2")

	follow := func() {
		t.Helper()
		as := before.RolesByEndpoint
		check.Must(t, d.Registry(t).CertifyDue(t.Context(), at, as, keyring.Declaration{}, zap.NewNop()))
	}
	check.Must(t, good.Rotate())
	follow()
	d.WantKeys(t, "decision-key:v1", "grant-key:v1", "grant-key:v2", "grant-key:v3")
	bad.unfit.Store(false)
	check.Must(t, bad.Rotate())
	follow()
	d.WantKeys(t, "decision-key:v1", "decision-key:v2", "grant-key:v1", "grant-key:v2", "grant-key:v3")
}
