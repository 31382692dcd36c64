package kit

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

// Publish serves the roles of a process on a unix socket and returns its endpoint.
func Publish(t *testing.T, name string, roles ...daemon.Role) string {
	t.Helper()
	return PublishSeen(t, name, &daemon.Observer{Roles: roles})
}

// PublishSeen is publish for a process that has looked at its deployment.
func PublishSeen(t *testing.T, name string, o *daemon.Observer) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p := &daemon.Process{Log: zap.NewNop(), Metrics: prometheus.NewRegistry(), Roles: o.Roles}
	p.Observer.Store(o)
	if p.Reloader, err = daemon.NewReloader(p.Log, p.Metrics); err != nil {
		t.Fatal(err)
	}
	mux := p.Mux(func() bool { return true })
	s := &http.Server{Handler: mux}
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

func MemoryKey(t *testing.T, name string) *custody.Memory {
	t.Helper()
	k, err := custody.NewMemory(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Role is a signing role of a process.
func Role(purpose, issuer string, key *signer.Rotation) daemon.Role {
	return daemon.Role{Purpose: purpose, Issuer: issuer, Key: key}
}

// Rotating is key as a role has it.
func Rotating(key *custody.Memory) *signer.Rotation { return signer.NewRotation(key, 0, time.Now) }

// Team is the security team's folder.
type Team struct{ Dir, Bundle string }

func NewTeam(t *testing.T, flags ...string) Team {
	t.Helper()
	d := Team{Dir: t.TempDir()}
	d.Bundle = filepath.Join(d.Dir, "trust.json")
	if status, _, said := Invoke(t, append([]string{"keys", "root", "--name", "registry", "--out", d.Dir}, flags...)...); status != 0 {
		t.Fatal(said)
	}
	return d
}

// Do runs a keys command with the registry's key over the bundle.
func (d Team) Do(t *testing.T, verb string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return Invoke(t, append([]string{"keys", verb, "--registry-key", filepath.Join(d.Dir, "registry.key.jwk"), "--audience", "api", "--bundle", d.Bundle}, args...)...)
}

// Registry opens the registry over the bundle.
func (d Team) Registry(t *testing.T) *keyring.Registry {
	t.Helper()
	key, err := keyring.OpenRootKey(t.Context(), filepath.Join(d.Dir, "registry.key.jwk"), io.Discard, evidence.PurposeSignerCertificate)
	if err != nil {
		t.Fatal(err)
	}
	return keyring.NewRegistry(key, signer.Options{Issuer: "key-registry", Audience: "api", Lifetime: time.Hour, Now: time.Now}, d.Bundle)
}

// Trust reads the bundle as a verifier does that pins the registry's public file.
func (d Team) Trust(t *testing.T) *evidence.Trust {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.Dir, "registry.jwk"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := evidence.ParseRoot(raw, evidence.PurposeSignerCertificate)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := config.ReadBundle(d.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	trust, err := evidence.NewTrust([]evidence.Root{root}, b, evidence.SignerPolicy{})
	if err != nil {
		t.Fatal(err)
	}
	return trust
}

func (d Team) WantKeys(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, c := range d.Trust(t).Certified() {
		got = append(got, c.Certificate.SubjectKeyID)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the bundle certifies %v, want %v", got, want)
	}
}

// PublishedBy returns a file of what a process publishes of its keys, as it is carried to another machine.
func PublishedBy(t *testing.T, at string) string {
	t.Helper()
	status, out, said := Invoke(t, "keys", "publish", "--from", at)
	if status != 0 {
		t.Fatal(said)
	}
	path := filepath.Join(t.TempDir(), "published.json")
	check.Must(t, os.WriteFile(path, []byte(out), 0o600))
	return "file:" + path
}
