package registrar_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/manifest"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/registrar"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"

	jose "github.com/go-jose/go-jose/v4"
)

const (
	domain = "spiffe://example.org/"
	digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	other  = "sha256:1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

type rig struct {
	dir      string
	now      time.Time
	auditor  keyring.RootKey
	registry keyring.RootKey
	manifest *policy.Manifest
	store    *registrar.Folder
	shared   *custody.Memory // the key runtime-key, in the custody of all
	retired  int             // its versions that the custody has retired
	read     func()          // while the custody is read; may be nil
	*registrar.Registrar
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), now: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)}
	text := strings.ReplaceAll(string(configs.Dev["manifest.yaml"]), "[runtime-key]", "[runtime-key, runtime-key/*]")
	var err error
	r.manifest, err = manifest.Parse([]byte(text))
	check.Must(t, err, os.WriteFile(r.at("manifest.yaml"), []byte(text), 0o600),
		os.WriteFile(r.at("mediator.yaml"), configs.Dev["mediator.yaml"], 0o600))
	r.registry, _, err = keyring.GenerateRoot("registry", false)
	check.Must(t, err)
	r.auditor, _, err = keyring.GenerateRoot("auditor", false)
	check.Must(t, err, os.Mkdir(r.at("state"), 0o700))
	r.store, err = registrar.OpenFolder(r.at("state"))
	check.Must(t, err)
	t.Cleanup(func() { check.Must(t, r.store.Close()) })
	r.shared = memory(t, "runtime-key")
	r.Registrar = registrar.New(registrar.Options{Key: r.registry, Lifetime: 24 * time.Hour, Store: r.store,
		Now: r.clock, Custody: r})
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { r.Run(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return r
}

// Public implements [keystore.PublicKeys].
func (r *rig) Public(ctx context.Context, name string) ([]custody.Version, custody.Properties, error) {
	if name != r.shared.Name() {
		return nil, custody.Properties{}, custody.Unavailable(nil, "there is no %s", name)
	}
	if r.read != nil {
		r.read()
	}
	versions, err := r.shared.Versions(ctx)
	return versions[r.retired:], r.shared.Properties(), err
}

func (r *rig) clock() time.Time { return r.now }

func (r *rig) at(name string) string { return filepath.Join(r.dir, name) }

const rules = `serial: 7
rules:
  - {namespace: agents, serviceAccount: worker, imageDigests: [` + digest + `], role: sidecar}
  - {id: "spiffe://example.org/machine/*", role: sidecar}
`

// signed signs rules and reads them again.
func (r *rig) signed(t *testing.T, by keyring.RootKey, source string) (*registrar.Rules, error) {
	t.Helper()
	check.Must(t, os.WriteFile(r.at("rules.yaml"), []byte(source), 0o600))
	claims, manifests, err := registrar.ReadSource(r.at("rules.yaml"), r.now)
	check.Must(t, err)
	signed, err := registrar.Sign(t.Context(), by, claims, manifests, 30*24*time.Hour, r.clock)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(signed)
	check.Must(t, err, os.WriteFile(r.at("rules.json"), raw, 0o600))
	return registrar.ReadSigned(r.at("rules.json"), r.auditor.Pinned(evidence.PurposeDeploymentCertificate), r.clock)
}

func (r *rig) use(t *testing.T, source string) {
	t.Helper()
	rules, err := r.signed(t, r.auditor, source)
	check.Must(t, err, r.SetRules(t.Context(), rules))
}

var pod = registrar.Pod{Namespace: "agents", Name: "worker-1", UID: "u1", ServiceAccount: "worker",
	Images: []string{"registry.example/mediator@" + digest}, Running: []string{"registry.example/mediator@" + digest}}

func ofPod(change func(*registrar.Pod)) registrar.Caller {
	p := pod
	change(&p)
	return registrar.Caller{ID: domain + registrar.PodID(p), Pods: []registrar.Pod{p}}
}

var caller = ofPod(func(*registrar.Pod) {})

// request makes the request of a process that holds the key.
func (r *rig) request(t *testing.T, c registrar.Caller, key custody.Key) registrar.Request {
	t.Helper()
	versions, err := key.Versions(t.Context())
	check.Must(t, err)
	role := daemon.RoleDocument{Purpose: evidence.PurposeRuntimeAttestation, Issuer: "mediator-runtime",
		KeyCustody: custody.ExternalMediator}
	for _, v := range versions {
		role.Keys = append(role.Keys, custody.JWK(v))
	}
	return r.prove(t, c, r.Nonce(), role, versions...)
}

func (r *rig) prove(t *testing.T, c registrar.Caller, nonce string, role daemon.RoleDocument,
	by ...custody.Version) registrar.Request {
	t.Helper()
	raw, err := json.Marshal(keyring.Publication{Roles: []daemon.RoleDocument{role},
		Observations: []look.Observation{}})
	check.Must(t, err)
	q := registrar.Request{Nonce: nonce, Publication: string(raw)}
	for _, v := range by {
		claims := evidence.Possession{PublicationHash: evidence.HashBytes(raw)}
		claims.Registered = evidence.NewRegistered(c.ID, evidence.AudienceRegistrar, r.now, time.Minute)
		claims.ID = nonce
		proof, err := evidence.Sign(t.Context(), v, evidence.PossessionKind(), claims)
		check.Must(t, err)
		q.Proofs = append(q.Proofs, proof)
	}
	return q
}

func memory(t *testing.T, name string) *custody.Memory {
	t.Helper()
	k, err := custody.NewMemory(name)
	check.Must(t, err)
	return k
}

func (r *rig) bundle(t *testing.T) evidence.Bundle {
	t.Helper()
	check.Must(t, r.Refresh(t.Context()))
	got, changed, err := r.TrustOf(caller)
	check.Must(t, err)
	select {
	case <-changed:
		t.Error("there is another trust already")
	default:
	}
	b, err := evidence.ParseBundle([]byte(got.Bundle))
	check.Must(t, err)
	if m, err := policy.ParseManifest([]byte(got.Manifest)); err != nil || b.DeploymentCertificate == "" {
		t.Errorf("the manifest %+v (%v), with the certificate %q", m, err, b.DeploymentCertificate)
	}
	return b
}

// TestRefreshAtOnce: state and rules may change at the same time.
func TestRefreshAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.use(t, rules)
	for range 20 {
		r.use(t, rules) // the registrar has other rules each time
		var refreshed sync.WaitGroup
		for range 8 {
			refreshed.Go(func() { check.Must(t, r.Refresh(t.Context())) })
		}
		refreshed.Wait()
	}
}

// certified returns the ids of the certified keys.
func (r *rig) certified(t *testing.T) map[string]bool {
	t.Helper()
	b := r.bundle(t)
	trust, err := evidence.NewTrust([]evidence.Root{r.registry.Pinned(evidence.PurposeSignerCertificate)}, b,
		evidence.SignerPolicy{})
	check.Must(t, err)
	ids := make(map[string]bool)
	for _, c := range trust.Certified() {
		ids[c.Certificate.SubjectKeyID] = true
	}
	return ids
}

func TestRegister(t *testing.T) {
	r := newRig(t)
	r.use(t, rules)
	key, shared := memory(t, "runtime-key/u1"), r.shared
	check.Must(t, shared.Rotate())
	stale := r.request(t, caller, firstOf{shared})
	for _, q := range []registrar.Request{r.request(t, caller, key), r.request(t, caller, shared), stale} {
		answer, err := r.Register(t.Context(), caller, q)
		check.Must(t, err)
		if answer.Again != int64((6 * time.Hour).Seconds()) {
			t.Errorf("again in %d s", answer.Again)
		}
	}
	machine := registrar.Caller{ID: domain + "machine/m1"}
	_, err := r.Register(t.Context(), machine, r.request(t, machine, memory(t, "runtime-key/m1")))
	check.Must(t, err)
	check.WantEqual(t, r.certified(t), map[string]bool{"runtime-key/u1:v1": true, "runtime-key/m1:v1": true,
		"runtime-key:v1": true, "runtime-key:v2": true}) // one that does not know v2 yet does not retire it

	ended, err := r.Keep(t.Context(), func(own string) bool { return own == "u1" })
	check.Must(t, err)
	if got := r.certified(t); ended != 1 || got["runtime-key/u1:v1"] || !got["runtime-key/m1:v1"] {
		t.Errorf("%d certificates of a pod that is gone ended: %v", ended, got)
	}
	r.use(t, strings.Replace(rules, "serial: 7", "serial: 8\nrevoke: [{key: runtime-key/m1, reason: stolen}]", 1))
	b := r.bundle(t)
	list, err := evidence.UnverifiedClaims(evidence.RevocationListKind(), b.Revocations)
	if err != nil || len(list.Revoked) != 1 || list.Revoked[0].ID != "runtime-key/m1" {
		t.Errorf("revoked: %+v, %v", list, err)
	}
}

// TestReplicaWithOldRules: it certifies nothing by them once another replica has newer ones.
func TestReplicaWithOldRules(t *testing.T) {
	r := newRig(t)
	before, err := r.signed(t, r.auditor, rules)
	check.Must(t, err)
	late := &rig{now: r.now, Registrar: registrar.New(registrar.Options{Key: r.registry, Lifetime: 24 * time.Hour,
		Store: r.store, Now: r.clock, Custody: r})}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { late.Run(ctx) })
	defer done.Wait()
	defer cancel()
	check.Must(t, late.SetRules(t.Context(), before))
	_, err = late.Register(t.Context(), caller, late.request(t, caller, memory(t, "runtime-key/u1")))
	check.Must(t, err)
	r.use(t, strings.NewReplacer("serial: 7", "serial: 8", "worker", "other").Replace(rules))
	_, _, err = late.TrustOf(caller)
	check.Must(t, err, late.Refresh(t.Context())) // as after each change that another replica makes
	_, _, err = late.TrustOf(caller)
	check.WantCode(t, err, "rules_refused")
	_, err = late.Register(t.Context(), caller, registrar.Request{})
	check.WantCode(t, err, "rules_refused")
	check.WantCode(t, late.Renew(t.Context(), r.auditor), "rules_refused")
	check.Must(t, r.Renew(t.Context(), r.auditor))
}

// TestKeepByOldRules: a replica that has not heard of newer rules sees not all pods, and ends no certificates.
func TestKeepByOldRules(t *testing.T) {
	r := newRig(t)
	r.use(t, rules)
	_, err := r.Register(t.Context(), caller, r.request(t, caller, memory(t, "runtime-key/u1")))
	check.Must(t, err)
	late := registrar.New(registrar.Options{Key: r.registry, Lifetime: 24 * time.Hour, Store: r.store, Now: r.clock})
	before, err := r.signed(t, r.auditor, rules)
	check.Must(t, err, late.SetRules(t.Context(), before))
	r.use(t, strings.Replace(rules, "serial: 7", "serial: 8", 1))
	_, err = late.Keep(t.Context(), func(string) bool { return true })
	check.WantCode(t, err, "rules_refused")
	check.WantEqual(t, r.certified(t), map[string]bool{"runtime-key/u1:v1": true})
}

// TestRulesDuringARegistration: rules that come into force during a registration refuse it, although the earlier ones
// allowed it.
func TestRulesDuringARegistration(t *testing.T) {
	r := newRig(t)
	r.use(t, rules)
	q := r.request(t, caller, r.shared)
	r.read = func() { r.use(t, strings.NewReplacer("serial: 7", "serial: 8", "worker", "other").Replace(rules)) }
	_, err := r.Register(t.Context(), caller, q)
	check.WantCode(t, err, "rules_refused")
}

// between does something between an edit and its return.
type between struct {
	*registrar.Folder
	do func()
}

func (b *between) Edit(ctx context.Context, do func(dir string) error) error {
	err := b.Folder.Edit(ctx, do)
	if then := b.do; then != nil {
		b.do = nil
		then()
	}
	return err
}

// TestRulesAtOnce: a reload and a changed file may set rules at the same time. The newer ones are in force then.
func TestRulesAtOnce(t *testing.T) {
	r := newRig(t)
	store := &between{Folder: r.store}
	tried := registrar.New(registrar.Options{Key: r.registry, Lifetime: 24 * time.Hour, Store: store, Now: r.clock})
	before, err := r.signed(t, r.auditor, rules)
	check.Must(t, err)
	after, err := r.signed(t, r.auditor, strings.Replace(rules, "serial: 7", "serial: 8", 1))
	check.Must(t, err)
	set := make(chan error, 1)
	store.do = func() {
		go func() { set <- tried.SetRules(t.Context(), after) }()
		select {
		case err := <-set:
			set <- err
		case <-time.After(200 * time.Millisecond):
		}
	}
	check.Must(t, tried.SetRules(t.Context(), before), <-set)
	now, err := tried.Rules()
	check.Must(t, err)
	if now.Serial != 8 {
		t.Errorf("the rules with the number %d are in force", now.Serial)
	}
}

// firstOf is a key of which a process knows only the first version.
type firstOf struct{ *custody.Memory }

func (f firstOf) Versions(ctx context.Context) ([]custody.Version, error) {
	all, err := f.Memory.Versions(ctx)
	return all[:1], err
}

// TestSharedKey: a process that was taken over gets no key of its own certified under a name that others share, and
// retires none of their versions.
func TestSharedKey(t *testing.T) {
	r := newRig(t)
	r.use(t, rules)
	v1 := versionOf(t, r.shared)
	own := func(number int) custody.Version {
		v := versionOf(t, memory(t, "own"))
		return custody.NewVersion("runtime-key", number, v.Public(), v.Sign)
	}
	register := func(refused bool, versions ...custody.Version) {
		t.Helper()
		_, err := r.Register(t.Context(), caller, r.request(t, caller, someOf{r.shared, versions}))
		if refused {
			wantReason(t, err, "registrar_refused", "key")
		} else {
			check.Must(t, err)
		}
	}
	want := func(versions ...string) {
		t.Helper()
		all := make(map[string]bool)
		for _, v := range versions {
			all["runtime-key:"+v] = true
		}
		check.WantEqual(t, r.certified(t), all)
	}
	register(true, own(1)) // before any other
	register(true, v1, own(2))
	want()
	register(false, v1)
	check.Must(t, r.shared.Rotate())
	register(true, v1, own(2))
	register(true, own(1))
	register(true, own(9))
	want("v1")
	register(false, versionOf(t, r.shared)) // without v1, which others still sign with
	want("v1", "v2")
	r.retired = 1
	register(false, v1) // it has not heard of that yet
	want("v2")
	r.shared = memory(t, "runtime-key") // the key was deleted, and made again
	check.Must(t, r.shared.Rotate())
	_, err := r.Register(t.Context(), caller,
		r.request(t, caller, someOf{r.shared, []custody.Version{versionOf(t, r.shared)}}))
	check.WantCode(t, err, "custody_unfit")
	want("v2")
	_, err = r.Register(t.Context(), caller, r.request(t, caller, memory(t, "session-key")))
	wantReason(t, err, "registrar_refused", "key")
}

// someOf is a key of which a process publishes these versions.
type someOf struct {
	custody.Key
	versions []custody.Version
}

func (s someOf) Versions(context.Context) ([]custody.Version, error) { return s.versions, nil }

// TestEndsLike: a key NAME/OWN belongs to one process, though others' ids may end like its own.
func TestEndsLike(t *testing.T) {
	for source, refused := range map[string]bool{
		`{id: "spiffe://example.org/machine/*", role: sidecar}`:                                                        false,
		`{id: "spiffe://example.org/machine/*", role: sidecar}, {id: "spiffe://example.org/other/m1", role: control}`:  false,
		`{id: "spiffe://example.org/machine/m1", role: sidecar}, {id: "spiffe://example.org/other/m1", role: sidecar}`: true,
		`{id: "spiffe://example.org/*/m1", role: sidecar}`:                                                             true,
	} {
		r := newRig(t)
		r.use(t, "serial: 1\nrules: ["+source+"]\n")
		machine := registrar.Caller{ID: domain + "machine/m1"}
		_, err := r.Register(t.Context(), machine, r.request(t, machine, memory(t, "runtime-key/m1")))
		if refused {
			wantReason(t, err, "registrar_refused", "key")
		} else {
			check.Must(t, err)
		}
	}
}

func TestRefuses(t *testing.T) {
	r := newRig(t)
	key, thief := memory(t, "runtime-key/u1"), memory(t, "runtime-key/u1")
	_, err := r.Register(t.Context(), caller, r.request(t, caller, key))
	wantReason(t, err, "rules_refused", "rules")
	r.use(t, rules)
	before := r.certified(t)
	foreign := ofPod(func(p *registrar.Pod) { p.UID = "u2" })
	for name, tt := range map[string]struct {
		caller       registrar.Caller
		request      func(c registrar.Caller) registrar.Request
		code, reason string
	}{
		"another namespace": {caller: ofPod(func(p *registrar.Pod) { p.Namespace = "others" }),
			code: "registrar_refused", reason: "namespace"},
		"another service account": {caller: ofPod(func(p *registrar.Pod) { p.ServiceAccount = "default" }),
			code: "registrar_refused", reason: "service_account"},
		"another image in the specification": {
			caller: ofPod(func(p *registrar.Pod) { p.Images = []string{"registry.example/mediator@" + other} }),
			code:   "registrar_refused", reason: "digest"},
		"another image that runs": {caller: ofPod(func(p *registrar.Pod) { p.Running = []string{"mediator@" + other} }),
			code: "registrar_refused", reason: "digest"},
		"no holder of the certificate": {caller: ofPod(func(p *registrar.Pod) { p.Images = nil }),
			code: "registrar_refused", reason: "digest"},
		"the id of another pod": {caller: registrar.Caller{ID: domain + "pod/agents/u9", Pods: caller.Pods},
			code: "registrar_refused", reason: "id"},
		"no pod with the id": {caller: registrar.Caller{ID: domain + "pod/agents/u1", Pods: []registrar.Pod{}},
			code: "registrar_refused", reason: "gone"},
		"an id that no rule has": {caller: registrar.Caller{ID: domain + "machine/a/b"}, code: "registrar_refused",
			reason: "id"},
		"a key of another pod": {caller: foreign, code: "registrar_refused", reason: "key"},
		"a key of another role": {request: func(c registrar.Caller) registrar.Request {
			return r.request(t, c, memory(t, "grant-key"))
		}, code: "registrar_refused", reason: "key"},
		"a nonce that was used": {request: func(c registrar.Caller) registrar.Request {
			q := r.request(t, c, key)
			_, err := r.Register(t.Context(), c, registrar.Request{Nonce: q.Nonce, Publication: q.Publication})
			wantReason(t, err, "possession_unproven", "possession")
			return q
		}, code: "possession_unproven", reason: "replay"},
		"a proof for another nonce": {request: func(c registrar.Caller) registrar.Request {
			q := r.request(t, c, key)
			q.Nonce = r.Nonce()
			return q
		}, code: "possession_unproven", reason: "possession"},
		"a proof for another publication": {request: func(c registrar.Caller) registrar.Request {
			q := r.request(t, c, key)
			q.Publication += " "
			return q
		}, code: "possession_unproven", reason: "possession"},
		"another's proof": {request: func(registrar.Caller) registrar.Request { return r.request(t, foreign, key) },
			code: "possession_unproven", reason: "possession"},
		"no proof": {request: func(c registrar.Caller) registrar.Request {
			q := r.request(t, c, key)
			q.Proofs = nil
			return q
		}, code: "possession_unproven", reason: "possession"},
		"a proof by another key": {request: func(c registrar.Caller) registrar.Request {
			return r.prove(t, c, r.Nonce(), roleOf(t, key), versionOf(t, thief))
		}, code: "possession_unproven", reason: "possession"},
		"no publication": {request: func(c registrar.Caller) registrar.Request {
			return registrar.Request{Nonce: r.Nonce(), Publication: "{}"}
		}, code: "query_malformed", reason: "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			c := tt.caller
			if c.ID == "" {
				c = caller
			}
			q := r.request(t, c, key)
			if tt.request != nil {
				q = tt.request(c)
			}
			_, err := r.Register(t.Context(), c, q)
			wantReason(t, err, tt.code, tt.reason)
		})
	}
	check.WantEqual(t, r.certified(t), before)
	old, err := r.signed(t, r.auditor, strings.Replace(rules, "serial: 7", "serial: 6", 1))
	check.Must(t, err)
	wantReason(t, r.SetRules(t.Context(), old), "rules_refused", "rules")
	forger, _, err := keyring.GenerateRoot("auditor", false)
	check.Must(t, err)
	_, err = r.signed(t, forger, rules)
	wantReason(t, err, "rules_refused", "rules")
	r.now = r.now.Add(31 * 24 * time.Hour)
	_, err = r.Register(t.Context(), caller, r.request(t, caller, key))
	wantReason(t, err, "rules_refused", "rules")
}

func versionOf(t *testing.T, key custody.Key) custody.Version {
	t.Helper()
	v, err := key.Current(t.Context())
	check.Must(t, err)
	return v
}

func roleOf(t *testing.T, key custody.Key) daemon.RoleDocument {
	t.Helper()
	return daemon.RoleDocument{Purpose: evidence.PurposeRuntimeAttestation, Issuer: "mediator-runtime",
		KeyCustody: custody.ExternalMediator, Keys: []jose.JSONWebKey{custody.JWK(versionOf(t, key))}}
}

func wantReason(t *testing.T, err error, code, reason string) {
	t.Helper()
	check.WantCode(t, err, code)
	var refused *registrar.Refusal
	if !errors.As(err, &refused) || refused.Reason != reason {
		t.Errorf("the reason of %v is not %s", err, reason)
	}
}

func TestFull(t *testing.T) {
	r := newRig(t)
	r.use(t, rules)
	var p keyring.Published
	for range registrar.MaxKeys {
		p.Roles = append(p.Roles, roleOf(t, memory(t, "runtime-key/"+rand.Text())))
	}
	registry := keyring.NewRegistry(r.registry, signer.Options{Issuer: "key-registry", Audience: "posting-api",
		Lifetime: time.Hour, Now: r.clock}, r.at("state/"+registrar.BundleFile))
	_, err := registry.Certify(t.Context(), p, keyring.Declaration{})
	check.Must(t, err)
	_, err = r.Register(t.Context(), caller, r.request(t, caller, memory(t, "runtime-key/u1")))
	wantReason(t, err, "bundle_full", "full")
}

// TestSource: rules name a manifest by its path alone, and an unknown key is refused.
func TestSource(t *testing.T) {
	r := newRig(t)
	for key, valid := range map[string]bool{"accessibleToUsers: true": true, "deployment: manifest.yaml": true,
		"deploymentHash: " + strings.Repeat("a", 64): false, "imagedigests: [" + digest + "]": false} {
		check.Must(t, os.WriteFile(r.at("rules.yaml"), []byte("serial: 1\nrules: [{namespace: agents, serviceAccount: "+
			"worker, role: sidecar, "+key+"}]"), 0o600))
		claims, _, err := registrar.ReadSource(r.at("rules.yaml"), r.now)
		if (err == nil) != valid || !valid && !strings.Contains(err.Error(), "is not known") {
			t.Errorf("%s: %v", key, err)
		}
		if valid && (claims.Rules[0].DeploymentHash == "" || claims.Rules[0].Namespace != "agents") {
			t.Errorf("%s: %+v", key, claims)
		}
	}
}

// TestUnsignedManifest: who delivers the rules can add no manifest. The auditor's key would certify it.
func TestUnsignedManifest(t *testing.T) {
	r := newRig(t)
	r.use(t, rules)
	raw, err := os.ReadFile(r.at("rules.json"))
	var s registrar.Signed
	check.Must(t, err, json.Unmarshal(raw, &s))
	m, err := manifest.Parse([]byte(s.Manifests[0]))
	check.Must(t, err)
	s.Manifests = append(s.Manifests, strings.ReplaceAll(s.Manifests[0], m.RuntimePolicy.RequiredEnvironmentHash,
		strings.Repeat("a", 64)))
	raw, err = json.Marshal(s)
	check.Must(t, err)
	if _, err := registrar.ParseSigned(raw, r.auditor.Pinned(evidence.PurposeDeploymentCertificate),
		r.clock); err == nil {
		t.Error("a manifest is taken that no signed rule names")
	}
}

// FuzzParseSigned: no panic, and no rules are believed but those that the auditor has signed.
func FuzzParseSigned(f *testing.F) {
	auditor, _, err := keyring.GenerateRoot("auditor", false)
	check.Must(f, err)
	now := func() time.Time { return time.Unix(1_800_000_000, 0) }
	m, err := manifest.Parse(configs.Dev["manifest.yaml"])
	check.Must(f, err)
	signed, err := registrar.Sign(context.Background(), auditor, evidence.RegistrarRules{Serial: 1,
		Rules: []evidence.RegistrarRule{{ID: domain + "a", Role: "node", DeploymentHash: m.Hash()}}},
		[]*policy.Manifest{m}, time.Hour, now)
	check.Must(f, err)
	raw, err := json.Marshal(signed)
	check.Must(f, err)
	f.Add(raw)
	f.Add([]byte(`{"rules":"","deploymentCertificates":[],"manifests":["{}"]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := registrar.ParseSigned(raw, auditor.Pinned(evidence.PurposeDeploymentCertificate), now)
		if err == nil && (r.Serial != 1 || len(r.Rules) != 1 || r.Rules[0].ID != domain+"a") {
			t.Errorf("rules that nobody signed are believed: %+v", r)
		}
	})
}

// FuzzReadRendered: no panic, and no file of a rendered chart is written elsewhere.
func FuzzReadRendered(f *testing.F) {
	f.Add("kind: ConfigMap\ndata: {rules.yaml: 'serial: 1', ../x: y}\n---\nkind: Secret\n")
	f.Add("{kind: ConfigMap, data: {rules.yaml: 'serial: 1\nrules: [{id: spiffe://a/b, role: node}]'}}")
	f.Fuzz(func(t *testing.T, text string) {
		if _, manifests, err := registrar.ReadRendered(strings.NewReader(text), time.Now()); err == nil &&
			len(manifests) > 0 {
			t.Errorf("a manifest out of nothing: %q", text)
		}
	})
}
