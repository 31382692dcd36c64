package registrar

import (
	"context"
	"crypto/ed25519"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	circl "github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/keystore"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/signer"
)

// Store keeps the state of a registrar, or of replicas that share it: the trust bundle with its history and other
// files.
type Store interface {
	// Edit calls do with the folder of the files, while no replica changes any. What do has written lasts once Edit
	// returns nil.
	Edit(ctx context.Context, do func(dir string) error) error
	// Read returns a file. It fails with fs.ErrNotExist if there is none.
	Read(ctx context.Context, name string) ([]byte, error)
	// Version changes with the files.
	Version(ctx context.Context) (string, error)
	// Lead calls do while this process alone of all replicas leads. It returns once it no longer does, or ctx ends.
	Lead(ctx context.Context, do func(context.Context) error) error
	// Watch calls changed after each change of the files, also by another replica, until ctx ends.
	Watch(ctx context.Context, changed func(), failed func(error))
	Close() error
}

// BundleFile is the name of the trust bundle in a [Store].
const BundleFile = "trust.json"

// Options describe a registrar. All fields but Custody are required.
type Options struct {
	Key      keyring.RootKey // of the key registry
	Lifetime time.Duration   // of custody certificates; a manifest may demand a shorter one
	Store    Store
	Now      func() time.Time
	// Custody has the public keys that processes share. If it is nil, they may share none.
	Custody keystore.PublicKeys
}

// Registrar certifies the keys of processes. It is safe for concurrent use.
type Registrar struct {
	o         Options
	setting   sync.Mutex                // held during SetRules
	active    atomic.Pointer[active]    // nil until SetRules
	refresh   sync.Mutex                // held during Refresh
	delivered atomic.Pointer[delivered] // only Refresh replaces it
	queue     chan *waiting
	nonces    *nonces
	serial    atomic.Int64 // the highest serial number of rules that the store has shown
}

type active struct {
	rules *Rules
	sign  signer.Options
}

// New makes a registrar. It has no rules, and so refuses everything.
func New(o Options) *Registrar {
	r := &Registrar{o: o, queue: make(chan *waiting), nonces: newNonces()}
	r.delivered.Store(&delivered{over: make(chan struct{})})
	return r
}

func (r *Registrar) registry(dir string, sign signer.Options) *keyring.Registry {
	registry := keyring.NewRegistry(r.o.Key, sign, filepath.Join(dir, BundleFile))
	registry.FromCustody = true
	return registry
}

func (r *Registrar) current() (*active, error) {
	a := r.active.Load()
	if a == nil {
		return nil, refuse("rules", "rules_refused", "no rules have been read yet")
	}
	return a, a.rules.Check(r.serial.Load(), r.o.Now())
}

// newest refuses rules that are older than others that a replica has seen, whose serial number it returns.
func (r *Registrar) newest(dir string, rules *Rules) (seen int64, err error) {
	if seen, err = number(files.Read(filepath.Join(dir, serialFile))); err != nil {
		return 0, err
	}
	r.see(seen)
	return seen, rules.Check(seen, r.o.Now())
}

func (r *Registrar) see(serial int64) {
	for now := r.serial.Load(); serial > now && !r.serial.CompareAndSwap(now, serial); now = r.serial.Load() {
	}
}

// look sees the serial number of the newest rules of all replicas.
func (r *Registrar) look(ctx context.Context) error {
	seen, err := number(r.o.Store.Read(ctx, serialFile)) // unsigned rules have none
	if err == nil {
		r.see(seen)
	}
	return err
}

// NewestRules is Rules, but asks the store first whether another replica has newer ones.
func (r *Registrar) NewestRules(ctx context.Context) (*Rules, error) {
	if err := r.look(ctx); err != nil {
		return nil, err
	}
	return r.Rules()
}

// Outdated reports whether another replica is known to have newer rules.
func (r *Registrar) Outdated() bool {
	a := r.active.Load()
	return a != nil && !a.rules.Trial && a.rules.Serial < r.serial.Load()
}

// Rules returns the current rules, unless they have expired, or are older than others that this replica has heard of.
func (r *Registrar) Rules() (*Rules, error) {
	a, err := r.current()
	if err != nil {
		return nil, err
	}
	return a.rules, nil
}

// Nonce returns a nonce for one [Registrar.Register].
func (r *Registrar) Nonce() string { return r.nonces.next(r.o.Now()) }

// Request asks for custody certificates.
type Request struct {
	// Nonce is the jti of each proof.
	Nonce string `json:"nonce"`
	// Publication is the JSON of a [keyring.Publication].
	Publication string `json:"publication"`
	// Proofs has a proof of possession by each version of each key.
	Proofs []string `json:"proofs"`
}

// Registered is the answer to a [Request]: the keys are certified.
type Registered struct {
	// Again is when to ask again, in seconds from now, so that no certificate ends.
	Again int64 `json:"again"`
}

// Register certifies the keys that a caller proves to hold, if the rules allow it.
func (r *Registrar) Register(ctx context.Context, c Caller, q Request) (Registered, error) {
	a, err := r.current()
	if err != nil {
		return Registered{}, err
	}
	rule, err := a.rules.For(c)
	if err != nil {
		return Registered{}, err
	}
	if err := r.nonces.spend(q.Nonce, c.ID, r.o.Now()); err != nil {
		return Registered{}, err
	}
	var p keyring.Publication
	if err := strictjson.Parse([]byte(q.Publication), &p); err != nil {
		return Registered{}, refuse("malformed", "query_malformed", "the publication of %s: %v", c.ID, err)
	}
	if err := a.rules.allowed(rule, c, p.Roles); err != nil {
		return Registered{}, err
	}
	if err := r.held(c, q, p.Roles); err != nil {
		return Registered{}, err
	}
	if err := r.shared(ctx, c, p.Roles); err != nil {
		return Registered{}, err
	}
	p.KeepOwn()
	for i := range p.Roles { // the certificates do not depend on them
		p.Roles[i].Signs, p.Roles[i].Made = "", nil
	}
	say := keyring.Declaration{AccessibleToAgent: rule.AccessibleToAgent, AccessibleToUsers: rule.AccessibleToUsers}
	return Registered{int64(a.sign.Lifetime / 4 / time.Second)}, r.certify(ctx, a, p, say)
}

// held refuses a key that the caller does not prove to hold now.
func (r *Registrar) held(c Caller, q Request, roles []daemon.RoleDocument) error {
	proofs := make(map[string]string) // by kid
	for _, token := range q.Proofs {
		proofs[evidence.KeyIDOf(token)] = token
	}
	hash := evidence.HashBytes([]byte(q.Publication))
	for _, role := range roles {
		for _, key := range role.Keys {
			public, ok := key.Key.(ed25519.PublicKey)
			if !ok {
				return refuse("malformed", "query_malformed", "the key %.200q of %s is no public Ed25519 key",
					key.KeyID, c.ID)
			}
			proof, err := evidence.OpenPossession(proofs[key.KeyID], key.KeyID, circl.PublicKey(public), r.o.Now())
			switch {
			case err != nil:
				return refuse("possession", "possession_unproven", "%s does not prove that it holds the key %.200q: %w",
					c.ID, key.KeyID, err)
			case proof.Issuer != c.ID || proof.Audience != evidence.AudienceRegistrar || proof.ID != q.Nonce ||
				proof.PublicationHash != hash:
				return refuse("possession", "possession_unproven",
					"the proof of the key %.200q is not for this registration of %s, but for another caller, "+
						"registrar, nonce or publication",
					key.KeyID, c.ID)
			}
		}
	}
	return nil
}

type waiting struct {
	by   *active // the rules that allow it
	p    keyring.Publication
	say  keyring.Declaration
	done chan error // buffered
}

func (r *Registrar) certify(ctx context.Context, by *active, p keyring.Publication, say keyring.Declaration) error {
	w := &waiting{by, p, say, make(chan error, 1)}
	select {
	case r.queue <- w:
	case <-ctx.Done():
		return refusal.New("overloaded", "the registrar has too much to certify")
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return refusal.New("overloaded", "the registrar has too much to certify")
	}
}

// maxAtOnce bounds the publications that one change of the bundle certifies.
const maxAtOnce = 64

// Run certifies what [Registrar.Register] allows, until ctx ends. It certifies publications that wait at the same time
// with one change of the trust bundle, because verifying the bundle takes most of the time.
func (r *Registrar) Run(ctx context.Context) {
	for {
		var batch []*waiting
		select {
		case <-ctx.Done():
			return
		case w := <-r.queue:
			batch = append(batch, w)
		}
		for more := true; more && len(batch) < maxAtOnce; {
			select {
			case w := <-r.queue:
				batch = append(batch, w)
			default:
				more = false
			}
		}
		for _, of := range groups(batch) {
			err := r.certifyAll(ctx, of)
			if err != nil && len(of) > 1 { // one of them may be refused
				for _, w := range of {
					w.done <- r.certifyAll(ctx, []*waiting{w})
				}
				continue
			}
			for _, w := range of {
				w.done <- err
			}
		}
	}
}

// groups splits publications by the rules that allow them, by the declarations of their keys and by their observations:
// a contradiction of one must not count against the keys of another.
func groups(batch []*waiting) (all [][]*waiting) {
next:
	for _, w := range batch {
		for i, g := range all {
			if g[0].by == w.by && g[0].say == w.say && slices.EqualFunc(g[0].p.Observations, w.p.Observations, sameResult) {
				all[i] = append(g, w)
				continue next
			}
		}
		all = append(all, []*waiting{w})
	}
	return all
}

// sameResult reports whether two observations differ only in their words.
func sameResult(a, b look.Observation) bool {
	a.Seen = b.Seen
	return a == b
}

func (r *Registrar) certifyAll(ctx context.Context, of []*waiting) error {
	p := keyring.Published{Publication: keyring.Publication{Observations: of[0].p.Observations}}
	for _, w := range of {
		for _, role := range w.p.Roles {
			if !slices.ContainsFunc(p.Roles, func(o daemon.RoleDocument) bool { return reflect.DeepEqual(o, role) }) {
				p.Roles = append(p.Roles, role)
			}
		}
	}
	a := of[0].by
	return r.o.Store.Edit(ctx, func(dir string) error {
		if _, err := r.newest(dir, a.rules); err != nil { // newer ones may not allow it
			return err
		}
		_, err := r.registry(dir, a.sign).Edit(ctx, func(e *keyring.Edit) error {
			if err := room(e, p.Roles); err != nil {
				return err
			}
			if needed, err := e.Needed(p.Roles); err != nil || !needed {
				return err
			}
			return e.Certify(ctx, p, of[0].say)
		})
		return err
	})
}

// room refuses new keys for which the bundle has no room: a full bundle would end the rotation of the others.
func room(e *keyring.Edit, roles []daemon.RoleDocument) error {
	names := e.KeyNames()
	for _, role := range roles {
		for _, key := range role.Keys {
			names[evidence.KeyName(key.KeyID)] = true
		}
	}
	if len(names) > MaxKeys {
		return refuse("full", "bundle_full",
			"the trust bundle may have at most %d keys, and this registration would exceed that", MaxKeys)
	}
	return nil
}

// MaxKeys bounds the keys of a trust bundle. The rest of its certificates is for further versions of them.
const MaxKeys = evidence.MaxCertificates * 3 / 4
