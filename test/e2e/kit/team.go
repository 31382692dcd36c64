package kit

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

// ServeUnix serves on a unix socket of this name until the test ends, and returns its endpoint.
func ServeUnix(t *testing.T, name string, handler http.Handler) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	l, err := net.Listen("unix", path)
	check.Must(t, err)
	s := &http.Server{Handler: handler, ReadHeaderTimeout: Patience}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return "unix:" + path
}

// Publish serves the roles of a process and returns its endpoint.
func Publish(t *testing.T, name string, roles ...daemon.Role) string {
	t.Helper()
	return PublishSeen(t, name, &daemon.Observer{Roles: roles})
}

// PublishSeen is Publish for a process that has looked at its deployment.
func PublishSeen(t *testing.T, name string, o *daemon.Observer) string {
	t.Helper()
	p := &daemon.Process{Log: zap.NewNop(), Metrics: prometheus.NewRegistry(), Roles: o.Roles}
	p.Observer.Store(o)
	p.Reloader = daemon.NewReloader(p.Log, p.Metrics)
	return ServeUnix(t, name, p.Mux())
}

// MemoryKey makes a key in memory.
func MemoryKey(t *testing.T, name string) *custody.Memory {
	t.Helper()
	k, err := custody.NewMemory(name)
	check.Must(t, err)
	return k
}

// Role is a signing role of a process.
func Role(purpose, issuer string, key *signer.Rotation) daemon.Role {
	return daemon.Role{Purpose: purpose, Issuer: issuer, Key: key}
}

// Grant is the role of a control plane that signs grants with a key.
func Grant(key *custody.Memory) daemon.Role {
	return Role(evidence.PurposeActionGrant, "authz", Rotating(key))
}

// Decision is the role of a control plane that signs decisions with a key.
func Decision(key *custody.Memory) daemon.Role {
	return Role(evidence.PurposePolicyDecision, "policy", Rotating(key))
}

// Proof is the role of a sidecar that signs request proofs with a key.
func Proof(key *custody.Memory) daemon.Role {
	return Role(evidence.PurposeRequestProof, "mediator", Rotating(key))
}

// Rotating returns a key as a role holds it.
func Rotating(key *custody.Memory) *signer.Rotation { return signer.NewRotation(key, 0, time.Now) }

// Team is the security team's folder.
type Team struct{ Dir, Bundle string }

// NewTeam makes the registry's root key.
func NewTeam(t *testing.T, flags ...string) Team {
	t.Helper()
	d := Team{Dir: t.TempDir()}
	d.Bundle = d.At("trust.json")
	Run(t, With([]string{"keys", "root", "--name", "registry", "--out", d.Dir}, flags...)...)
	return d
}

// At returns the path of a file of the team.
func (d Team) At(name string) string { return filepath.Join(d.Dir, name) }

func (d Team) command(verb string, args []string) []string {
	return append([]string{
		"keys", verb, "--registry-key", d.At("registry.key.jwk"), "--audience", "api", "--bundle", d.Bundle,
	}, args...)
}

// Do runs a keys command with the registry's key over the bundle.
func (d Team) Do(t *testing.T, verb string, args ...string) Ended {
	t.Helper()
	return Mediator(t, d.command(verb, args)...)
}

// Must is Do for a command that has to succeed.
func (d Team) Must(t *testing.T, verb string, args ...string) (stdout string) {
	t.Helper()
	return Run(t, d.command(verb, args)...)
}

// Registry opens the registry over the bundle.
func (d Team) Registry(t *testing.T) *keyring.Registry {
	t.Helper()
	key, err := keyring.OpenRootKey(t.Context(), d.At("registry.key.jwk"), io.Discard, evidence.PurposeSignerCertificate)
	check.Must(t, err)
	o := signer.Options{Issuer: "key-registry", Audience: "api", Lifetime: time.Hour, Now: time.Now}
	return keyring.NewRegistry(key, o, d.Bundle)
}

// Trust reads the bundle as a verifier with this policy does.
func (d Team) Trust(t *testing.T, policy evidence.SignerPolicy) *evidence.Trust {
	t.Helper()
	root, err := evidence.ParseRoot(Read(t, d.At("registry.jwk")), evidence.PurposeSignerCertificate)
	check.Must(t, err)
	b, _, err := deployed.ReadBundle(d.Bundle)
	check.Must(t, err)
	trust, err := evidence.NewTrust([]evidence.Root{root}, b, policy)
	check.Must(t, err)
	return trust
}

// Certified returns the trust of a verifier that accepts any certificate of the registry.
func (d Team) Certified(t *testing.T) *evidence.Trust {
	t.Helper()
	return d.Trust(t, evidence.SignerPolicy{})
}

// Keys returns the ids of the certified keys in order.
func (d Team) Keys(t *testing.T) (ids []string) {
	t.Helper()
	for _, c := range d.Certified(t).Certified() {
		ids = append(ids, c.Certificate.SubjectKeyID)
	}
	slices.Sort(ids)
	return ids
}

// WantKeys fails if the bundle certifies other keys.
func (d Team) WantKeys(t *testing.T, want ...string) {
	t.Helper()
	if got := d.Keys(t); !slices.Equal(got, want) {
		t.Errorf("the bundle certifies %v, want %v", got, want)
	}
}

// PublishedBy saves what a process publishes of its keys, as it is carried to another machine. It returns the endpoint.
func PublishedBy(t *testing.T, at string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "published.json")
	Write(t, path, Run(t, "keys", "list", "--publication", "--from", at))
	return "file:" + path
}
