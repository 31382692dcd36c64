package vault

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/actionproof/mediator/custody"
)

// Key is one Ed25519 key of the Transit engine.
type Key struct {
	session *session
	name    string
	others  []string
	state   atomic.Pointer[state]
	failure atomic.Pointer[error] // of the last reading

	flight singleflight.Group

	mu     sync.Mutex              // held while reading the key
	pinned map[int]custody.Version // every version ever seen
}

var _ custody.Key = (*Key)(nil)

type state struct {
	read     time.Time
	versions []custody.Version // accepted by Vault, oldest first
	flags    flags
}

type flags struct {
	Exportable      bool `json:"exportable"`
	PlaintextBackup bool `json:"allow_plaintext_backup"`
	Deletable       bool `json:"deletion_allowed"`
}

func (f flags) exportable() bool { return f.Exportable || f.PlaintextBackup }

// Prepare makes a key without a request to Vault. Until [Key.Open] succeeds it counts as exportable. [Key.Observe]
// checks that auth cannot use others, the keys of other roles.
func (s *Server) Prepare(name string, auth Auth, others ...string) *Key {
	others = slices.DeleteFunc(slices.Clone(others), func(o string) bool { return o == name })
	k := &Key{session: s.session("key "+name, auth), name: name, others: others, pinned: make(map[int]custody.Version)}
	k.state.Store(&state{flags: flags{Exportable: true}})
	return k
}

// Ready fails if Open would because of its secret id. It uses none up. Call it again after an error.
func (k *Key) Ready(ctx context.Context) error { return k.session.ready(ctx) }

// Open logs in, reads the key, and reads it periodically until Close. Call it again after an error.
func (k *Key) Open(ctx context.Context) error {
	if err := k.read(ctx); err != nil {
		return err
	}
	k.session.server.background(k.watch)
	return nil
}

// stale is the greatest age of a reading when a key signs. A caller waits for a new reading from aged on, so that a
// slow machine does not find the old one stale in between.
const stale, aged = 5 * time.Second, 4 * time.Second

// An unused key is read every idle × Refresh. Each reading is two lines in Vault's audit log.
const idle = 5

// patience bounds the time that a signature waits for a reading while Vault does not answer.
const patience = 500 * time.Millisecond

// watch reads the key periodically, and more often while readings fail.
func (k *Key) watch(ctx context.Context) {
	o := k.session.server.o
	failing := false
	next := time.NewTimer(idle * o.Refresh)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		err := k.read(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			o.Log.Error("a key cannot be read", zap.String("key", k.name), zap.String("because", err.Error()))
		}
		if err == nil && failing {
			o.Log.Info("the key can be read again", zap.String("key", k.name))
		}
		if failing = err != nil; failing {
			next.Reset(o.Refresh)
		} else {
			next.Reset(idle * o.Refresh)
		}
	}
}

// used reads the key for a signature: in the background if the last reading is older than Refresh, first if it is
// older than aged.
func (k *Key) used(ctx context.Context) {
	o := k.session.server.o
	switch age := k.age(); {
	case age > aged || age < -aged:
		if k.lately() != nil {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
		}
		_ = k.within(ctx, aged)
	case age > o.Refresh:
		k.readOnce()
	}
}

func (k *Key) within(ctx context.Context, maxAge time.Duration) error {
	if age := k.age(); 0 <= age && age < maxAge {
		return nil
	}
	select {
	case done := <-k.readOnce():
		return done.Err
	case <-ctx.Done():
		return custody.Unavailable(ctx.Err(), "the key %s was not read in time", k.name)
	}
}

// Callers share one reading.
func (k *Key) readOnce() <-chan singleflight.Result {
	return k.flight.DoChan("", func() (any, error) { return nil, k.read(k.session.server.ctx) })
}

func (k *Key) age() time.Duration {
	return k.session.server.o.Now().Sub(k.state.Load().read)
}

type described struct {
	flags
	Type    string          `json:"type"`
	Derived bool            `json:"derived"`
	Keys    json.RawMessage `json:"keys"` // its shape depends on the type
}

// read reads the key. An unfit key stays unfit until a reading finds it fit.
func (k *Key) read(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.describe(ctx)
	if err == nil || !custody.IsUnfit(k.lately()) {
		k.failure.Store(&err)
	}
	return err
}

// The caller holds mu.
func (k *Key) describe(ctx context.Context) error {
	o := k.session.server.o
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	asked := o.Now() // the reading is no older than the question
	secret, err := k.session.read(ctx, k.path("keys"))
	if err != nil {
		return custody.Unavailable(err, "the key %s cannot be read: %s", k.name, why(err))
	}
	if secret == nil {
		return custody.Unavailable(nil,
			"Vault has no key %s in %s: make it as `mediator vault bootstrap --print` shows", k.name, o.Mount)
	}
	var d described
	if err := decode(secret, &d); err != nil {
		return custody.Unavailable(err, "Vault's description of the key %s cannot be read", k.name)
	}
	if d.Type != "ed25519" || d.Derived {
		return custody.Unfit("the key %s in Vault has the type %s and is not a plain ed25519 key: make another one with a "+
			"name of its own", k.name, d.Type)
	}
	versions, err := k.versions(d)
	if err != nil {
		return err
	}
	k.state.Store(&state{read: asked, versions: versions, flags: d.flags})
	return nil
}

// maxVersions bounds the versions that a process remembers.
const maxVersions = 1 << 14

// versions returns the described versions, oldest first. A version whose public key has changed makes the key unfit:
// the key was deleted and made again.
func (k *Key) versions(d described) ([]custody.Version, error) {
	var keys map[string]struct {
		Public string    `json:"public_key"`
		Made   time.Time `json:"creation_time"`
	}
	if err := json.Unmarshal(d.Keys, &keys); err != nil {
		return nil, custody.Unavailable(err, "Vault's description of the key %s cannot be read", k.name)
	}
	numbers := make([]int, 0, len(keys))
	for text, described := range keys {
		number, err := strconv.Atoi(text)
		public, err2 := base64.StdEncoding.DecodeString(described.Public)
		if err != nil || err2 != nil || number < 1 || len(public) != ed25519.PublicKeySize {
			return nil, custody.Unavailable(nil, "Vault's description of version %.20q of the key %s cannot be read",
				text, k.name)
		}
		known, ok := k.pinned[number]
		if !ok && len(k.pinned) == maxVersions {
			return nil, custody.Unavailable(nil, "Vault has named more than %d versions of the key %s", maxVersions,
				k.name)
		}
		if !ok {
			b := &batcher{key: k, number: number, public: public}
			k.pinned[number] = custody.NewVersion(k.name, number, public, b.sign).MadeAt(described.Made)
		} else if !known.Public().Equal(ed25519.PublicKey(public)) {
			return nil, custody.Unfit(
				"version %d of the key %s in Vault is not the same key as before: somebody has replaced it", number,
				k.name)
		}
		numbers = append(numbers, number)
	}
	if len(numbers) == 0 {
		return nil, custody.Unavailable(nil, "the key %s in Vault has no version", k.name)
	}
	slices.Sort(numbers)
	out := make([]custody.Version, len(numbers))
	for i, n := range numbers {
		out[i] = k.pinned[n]
	}
	return out, nil
}

// Name returns the Transit key's name.
func (k *Key) Name() string { return k.name }

// Current returns the newest version, read at most stale ago.
func (k *Key) Current(ctx context.Context) (custody.Version, error) {
	k.used(ctx) // fresh reports the result
	s, err := k.fresh(stale)
	if err != nil {
		return custody.Version{}, err
	}
	return s.versions[len(s.versions)-1], nil
}

// Versions returns the versions that Vault accepts (min_decryption_version and later).
func (k *Key) Versions(context.Context) ([]custody.Version, error) {
	s, err := k.known()
	if err != nil {
		return nil, err
	}
	return slices.Clone(s.versions), nil
}

// known returns the last good reading. After a failed one it may be stale old.
func (k *Key) known() (*state, error) {
	o := k.session.server.o
	if k.lately() != nil {
		return k.fresh(stale)
	}
	return k.fresh(idle*o.Refresh + stale)
}

func (k *Key) fresh(maxAge time.Duration) (*state, error) {
	s, o, lately := k.state.Load(), k.session.server.o, k.lately()
	if custody.IsUnfit(lately) {
		return nil, lately
	}
	if age := o.Now().Sub(s.read); age > maxAge || age < -maxAge {
		because := ""
		if lately != nil {
			because = ": " + lately.Error()
		}
		if s.read.IsZero() {
			return nil, custody.Unavailable(lately, "the key %s has not been read yet%s", k.name, because)
		}
		return nil, custody.Unavailable(lately, "what has become of the key %s since %s ago is not known%s", k.name,
			age.Round(time.Second), because)
	}
	return s, nil
}

func (k *Key) lately() error {
	if err := k.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Properties returns what Vault says of the key.
func (k *Key) Properties() custody.Properties {
	return custody.Properties{Custody: custody.ExternalMediator, Exportable: k.state.Load().flags.exportable(),
		Observed: []string{"keyCustody", "keyExportable"}}
}

func (k *Key) path(operation string) string {
	return k.session.server.o.Mount + "/" + operation + "/" + k.name
}
