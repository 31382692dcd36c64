package keyring_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

// Its clock goes on by tick each time that it is read.
type team struct {
	t        *testing.T
	now      time.Time
	tick     time.Duration
	root     keyring.RootKey
	bundle   string
	registry *keyring.Registry
	key      *custody.Memory
}

func newTeam(t *testing.T) *team {
	t.Helper()
	m := &team{t: t, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		bundle: filepath.Join(t.TempDir(), "trust.json")}
	var err error
	m.root, _, err = keyring.GenerateRoot("registry", false)
	check.Must(t, err)
	m.registry = keyring.NewRegistry(m.root, signer.Options{Issuer: "key-registry", Audience: "posting-api",
		Lifetime: 30 * 24 * time.Hour, Now: func() time.Time {
			m.now = m.now.Add(m.tick)
			return m.now
		}}, m.bundle)
	m.key, err = custody.NewMemory("runtime-key")
	check.Must(t, err)
	return m
}

func (m *team) certify(retired int) {
	m.t.Helper()
	set, err := custody.JWKS(m.t.Context(), m.key)
	check.Must(m.t, err)
	_, err = m.registry.Certify(m.t.Context(), keyring.Published{Publication: keyring.Publication{
		Roles: []daemon.RoleDocument{{Purpose: evidence.PurposeRuntimeAttestation, Issuer: "mediator-runtime",
			KeyCustody: custody.ExternalMediator, Keys: set.Keys[retired:]}},
	}}, keyring.Declaration{})
	check.Must(m.t, err)
}

func (m *team) revoke(kid string) {
	m.t.Helper()
	_, err := m.registry.Revoke(m.t.Context(), []evidence.Revocation{{Kind: evidence.RevokedKey, ID: kid,
		Reason: "stolen", Expires: m.now.Add(400 * 24 * time.Hour).Unix()}}, func(string) {})
	check.Must(m.t, err)
}

func (m *team) trust(b evidence.Bundle, p evidence.SignerPolicy) *evidence.Trust {
	m.t.Helper()
	trust, err := evidence.NewTrust([]evidence.Root{m.root.Pinned(evidence.PurposeSignerCertificate)}, b, p)
	check.Must(m.t, err)
	return trust
}

// TestBundleDoesNotGrow rotates a key again and again without retiring a version. The version before stays certified
// for an hour, in which all that it has signed expires.
func TestBundleDoesNotGrow(t *testing.T) {
	m := newTeam(t)
	certify := func(numbers ...int) {
		t.Helper()
		m.certify(0)
		b, _, err := deployed.ReadBundle(m.bundle)
		check.Must(t, err)
		got, want := make(map[string]bool), make(map[string]bool)
		for _, c := range m.trust(b, evidence.SignerPolicy{}).Certified() {
			got[c.Certificate.SubjectKeyID] = true
		}
		for _, n := range numbers {
			want[fmt.Sprintf("runtime-key:v%d", n)] = true
		}
		check.WantEqual(t, got, want)
	}
	certify(1)
	size := int64(0)
	for n := 2; n < 40; n++ {
		check.Must(t, m.key.Rotate())
		certify(n-1, n)
		m.now = m.now.Add(59 * time.Minute)
		certify(n-1, n)
		m.now = m.now.Add(time.Minute)
		certify(n)
		info, err := os.Stat(m.bundle)
		check.Must(t, err)
		if size == 0 {
			size = info.Size()
		}
		if info.Size() > size+16 { // the versions' numbers have one digit, and then two
			t.Fatalf("after %d rotations the bundle has %d bytes, and it had %d", n, info.Size(), size)
		}
	}
}

// TestCopiedKey lets a process publish the public key of another role as a version of its own key: it needs no private
// key for that, and both would be refused as one key with two purposes.
func TestCopiedKey(t *testing.T) {
	m := newTeam(t)
	role := func(purpose string, key jose.JSONWebKey) daemon.RoleDocument {
		return daemon.RoleDocument{Purpose: purpose, Issuer: purpose, KeyCustody: custody.ExternalMediator,
			Keys: []jose.JSONWebKey{key}}
	}
	certify := func(roles ...daemon.RoleDocument) error {
		_, err := m.registry.Certify(t.Context(), keyring.Published{Publication: keyring.Publication{Roles: roles}},
			keyring.Declaration{})
		return err
	}
	set, err := custody.JWKS(t.Context(), m.key)
	check.Must(t, err)
	trigger, copied := role(evidence.PurposeTriggerReceipt, set.Keys[0]), set.Keys[0]
	copied.KeyID = "session-key:v2"
	session := role(evidence.PurposeAgentSession, copied)
	check.WantCode(t, certify(trigger, session), "key_purpose")
	check.Must(t, certify(trigger))
	check.WantCode(t, certify(session), "key_purpose")
}

// TestObservationsOfOthers lets one of two processes that are certified at once say what the other's key is like, and
// both what no process observes.
func TestObservationsOfOthers(t *testing.T) {
	publication := func(purpose string, key custody.Key, seen ...look.Observation) string {
		set, err := custody.JWKS(t.Context(), key)
		check.Must(t, err)
		path := filepath.Join(t.TempDir(), "keys.json")
		raw, err := json.Marshal(keyring.Publication{Roles: []daemon.RoleDocument{{Purpose: purpose, Issuer: purpose,
			KeyCustody: custody.ExternalMediator, Observed: []string{"accessibleToUsers"}, Keys: set.Keys}},
			Observations: append(seen, look.New(look.Custody, look.Holds, "The key does not leave.").For(purpose))})
		check.Must(t, err, os.WriteFile(path, raw, 0o600))
		return "file:" + path
	}
	for _, said := range []look.Result{look.Holds, look.Contradicts} {
		m := newTeam(t)
		node, err := custody.NewMemory("appraiser-key")
		check.Must(t, err)
		p, err := keyring.ReadPublished(t.Context(), []string{publication(evidence.PurposeRuntimeAttestation, m.key),
			publication(evidence.PurposeAppraiser, node,
				look.New(look.Process, said, "It says so.").For(evidence.PurposeRuntimeAttestation),
				look.New(look.Files, said, "It says so.").For(evidence.PurposeRuntimeAttestation))})
		check.Must(t, err)
		_, err = m.registry.Certify(t.Context(), p, keyring.Declaration{})
		check.Must(t, err)
		b, _, err := deployed.ReadBundle(m.bundle)
		check.Must(t, err)
		for _, c := range m.trust(b, evidence.SignerPolicy{}).Certified() {
			check.WantEqual(t, len(c.Certificate.Observed), 0)
		}
	}
}

// TestPublishedTwice: a process that was taken over must not make the registry sign, and hold the bundle's lock, for
// long.
func TestPublishedTwice(t *testing.T) {
	m := newTeam(t)
	set, err := custody.JWKS(t.Context(), m.key)
	check.Must(t, err)
	role := daemon.RoleDocument{Purpose: evidence.PurposeRuntimeAttestation, Issuer: "mediator-runtime",
		KeyCustody: custody.ExternalMediator, Keys: set.Keys}
	path := filepath.Join(t.TempDir(), "keys.json")
	publish := func(roles ...daemon.RoleDocument) keyring.Published {
		raw, err := json.Marshal(keyring.Publication{Roles: roles, Observations: []look.Observation{}})
		check.Must(t, err, os.WriteFile(path, raw, 0o600))
		p, err := keyring.ReadPublished(t.Context(), []string{"file:" + path})
		check.Must(t, err)
		return p
	}
	as := publish(role).RolesByEndpoint
	publish(role, role)
	check.WantCode(t, m.registry.CertifyDue(t.Context(), "file:"+path, as, keyring.Declaration{}, zap.NewNop()),
		"roles_changed")
	other, err := custody.NewMemory("runtime-key")
	check.Must(t, err)
	again, err := custody.JWKS(t.Context(), other)
	check.Must(t, err)
	role.Keys = append(role.Keys, again.Keys...)
	done, err := m.registry.Certify(t.Context(), publish(role), keyring.Declaration{})
	check.Must(t, err)
	check.WantEqual(t, done.Certified, 1)
}

// TestImpostor lets another user answer where a process has ended: in a folder that both write, as /run/mediator.
func TestImpostor(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	m, path := newTeam(t), filepath.Join(t.TempDir(), "trigger.sock")
	check.Must(t, errors.Join(os.Chmod(filepath.Dir(path), 0o777), os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755)))
	serve := func(uid uintptr, key *custody.Memory) *http.Server {
		set, err := custody.JWKS(t.Context(), key)
		check.Must(t, err)
		listener := make(chan net.Listener)
		go func() { // its thread ends with it
			runtime.LockOSThread()
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uid, ^uintptr(0))
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Error(err)
			}
			listener <- l
		}()
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/looks" {
				_, _ = w.Write([]byte("[]"))
				return
			}
			_ = json.NewEncoder(w).Encode([]daemon.RoleDocument{{Purpose: evidence.PurposeTriggerReceipt,
				Issuer: "mediator-trigger", KeyCustody: custody.ExternalMediator, Keys: set.Keys}})
		})}
		l := <-listener
		go func() { _ = s.Serve(l) }()
		return s
	}
	own, err := custody.NewMemory("trigger-receipt-key")
	check.Must(t, err)
	impostors, err := custody.NewMemory("trigger-receipt-key")
	check.Must(t, err)
	at := fmt.Sprintf("unix:%s,%d", path, 54320)
	process := serve(54320, own)
	first, err := keyring.ReadPublished(t.Context(), []string{at})
	check.Must(t, err)
	_, err = m.registry.Certify(t.Context(), first, keyring.Declaration{})
	check.Must(t, err)
	check.Must(t, process.Close())
	defer serve(54321, impostors).Close()
	err = m.registry.CertifyDue(t.Context(), at, first.RolesByEndpoint, keyring.Declaration{}, zap.NewNop())
	if err == nil || !strings.Contains(err.Error(), "user 54321 answers there, not user 54320") {
		t.Error("the impostor's key is certified:", err)
	}
}

// TestSharedByProcesses: one of two processes that share a key was taken over. It gets no version certified that the
// other does not publish too, and retires none.
func TestSharedByProcesses(t *testing.T) {
	m := newTeam(t)
	own, err := custody.NewMemory("runtime-key")
	check.Must(t, err)
	others, err := custody.JWKS(t.Context(), own)
	check.Must(t, err)
	ahead := others.Keys[0]
	ahead.KeyID = "runtime-key:v9"
	certify := func(disputed int, says ...jose.JSONWebKey) {
		t.Helper()
		set, err := custody.JWKS(t.Context(), m.key)
		check.Must(t, err)
		var p keyring.Published
		for _, keys := range [][]jose.JSONWebKey{set.Keys, says} {
			p.Roles = append(p.Roles,
				daemon.RoleDocument{Purpose: evidence.PurposeRuntimeAttestation, Issuer: "mediator-runtime",
					KeyCustody: custody.ExternalMediator, Keys: keys})
		}
		done, err := m.registry.Certify(t.Context(), p, keyring.Declaration{})
		if check.WantEqual(t, done.Disputed, disputed); disputed > 0 {
			check.WantCode(t, err, "roles_changed")
		} else {
			check.Must(t, err)
		}
	}
	want := func(kids ...string) {
		t.Helper()
		b, _, err := deployed.ReadBundle(m.bundle)
		check.Must(t, err)
		certified := make(map[string]string)
		for _, c := range m.trust(b, evidence.SignerPolicy{}).Certified() {
			certified[c.Certificate.SubjectKeyID] = string(c.Public)
		}
		set, err := custody.JWKS(t.Context(), m.key)
		check.Must(t, err)
		all := make(map[string]string)
		for i, kid := range kids {
			all[kid] = string(set.Keys[i].Key.(ed25519.PublicKey))
		}
		check.WantEqual(t, certified, all)
	}
	set, err := custody.JWKS(t.Context(), m.key)
	check.Must(t, err)
	certify(1, others.Keys[0]) // both say that v1 is theirs
	want()
	certify(0, set.Keys[0])
	want("runtime-key:v1")
	for _, says := range []jose.JSONWebKey{ahead, others.Keys[0]} {
		certify(1, says)
		want("runtime-key:v1")
	}
	check.Must(t, m.key.Rotate())
	certify(1, set.Keys[0]) // it has not heard of v2 yet
	want("runtime-key:v1")
	set, err = custody.JWKS(t.Context(), m.key)
	check.Must(t, err)
	certify(0, set.Keys...)
	want("runtime-key:v1", "runtime-key:v2")
}
