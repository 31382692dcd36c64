package kit

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/registrar"
	"github.com/actionproof/mediator/test/check"
)

// Registered are the processes of a deployment with a registrar. It is started first.
var Registered = []string{"registrar", "trigger", "control", "serve"}

// AddRegistrar gives a deployment that is not started a registrar, and takes its node away. Each process gets a TLS
// certificate, and a folder for the bundle and the manifest that the registrar delivers.
func (r *Rig) AddRegistrar(t *testing.T) {
	t.Helper()
	at, err := freeport.Address()
	check.Must(t, err, os.Remove(r.In(devstack.ReputationFile)), os.MkdirAll(r.In("registrar"), 0o700))
	Edit(t, r.In(devstack.SidecarFile), "reputation: {unix: run/reputation.sock, audience: mediator-reputation}", "")
	manifest := regexp.MustCompile(`allowedKeyIds: \[([a-z-]+-key)\]`).ReplaceAll(Read(t, r.In(devstack.ManifestFile)),
		[]byte("allowedKeyIds: [$1, $1/*]"))
	Write(t, r.In(devstack.ManifestFile), manifest)
	files := map[string]string{"serve": devstack.SidecarFile, "trigger": devstack.TriggerFile,
		"control": devstack.ControlFile, "registrar": "registrar.yaml"}
	Write(t, r.In("registrar.yaml"), fmt.Sprintf(`internal: {unix: run/registrar.sock}
listen: %q
state: registrar
custody: {type: memory}
trust: {registry: registry.jwk, auditor: auditor.jwk, bundle: registrar/trust.json}
registryKey: secrets/registry.key.jwk
rules: rules.json
`, at))
	ca := newAuthority(t)
	for name, file := range files {
		check.Must(t, os.MkdirAll(r.In("trust-"+name), 0o700))
		ca.issue(t, r.In("secrets/"+name+".pem"), "machine/"+name, "registrar.test")
		text := string(Read(t, r.In(file))) + fmt.Sprintf("\ntls: {certificate: secrets/%s.pem, key: secrets/%[1]s.pem, "+
			"authorities: authorities.pem}\n", name)
		if name != "registrar" {
			text = strings.NewReplacer("bundle: trust.json", "bundle: trust-"+name+"/trust.json",
				"manifest: manifest.yaml", "manifest: trust-"+name+"/manifest.yaml").Replace(text)
			text += fmt.Sprintf("registrar: {tcp: %q, name: registrar.test}\n", at)
		}
		Write(t, r.In(file), text)
	}
	Write(t, r.In("authorities.pem"), ca.PEM())
	for _, root := range []string{"registry", "auditor"} {
		Run(t, "keys", "root", "--name", root, "--out", r.In("secrets"))
		check.Must(t, os.Rename(r.In("secrets/"+root+".jwk"), r.In(root+".jwk")))
	}
	r.SignRules(t, 1)
}

// SignRules signs the registrar's rules with a serial number, and revokes keys.
func (r *Rig) SignRules(t *testing.T, serial int, revoked ...string) {
	t.Helper()
	rules := fmt.Sprintf("serial: %d\nrules:\n", serial)
	for name, role := range map[string]string{"trigger": "trigger", "control": "control", "serve": "sidecar"} {
		rules += fmt.Sprintf("  - {id: \"spiffe://example.org/machine/%s\", role: %s}\n", name, role)
	}
	for i, key := range revoked {
		if i == 0 {
			rules += "revoke:\n"
		}
		rules += fmt.Sprintf("  - {key: %s, reason: test}\n", key)
	}
	Write(t, r.In("rules.yaml"), rules)
	Run(t, "registrar", "sign", r.In("rules.yaml"), "--auditor-key", r.In("secrets/auditor.key.jwk"), "--out",
		r.In("rules.json"))
}

// StartRegistered starts the processes, and waits until they are ready. Nobody certifies a key but the registrar.
func (r *Rig) StartRegistered(t *testing.T) {
	t.Helper()
	r.Stack = devstack.New(r.Dir)
	t.Cleanup(r.Stack.Stop)
	t.Cleanup(func() {
		for _, name := range Registered {
			if log, _ := os.ReadFile(r.In(name + ".log")); t.Failed() {
				t.Logf("the end of the log of %s:\n%s", name, log[max(0, len(log)-4<<10):])
			}
		}
	})
	for _, name := range Registered {
		check.Must(t, r.Stack.StartProcess(name, r.fileOf(name)))
	}
	for _, name := range Registered {
		check.Must(t, r.Stack.WaitFor(t.Context(), r.Process(name), "/readyz"))
	}
}

func (r *Rig) fileOf(name string) string {
	if name == "registrar" {
		return "registrar.yaml"
	}
	return configurations[name]
}

// Kill kills a process of the deployment, unless it has ended.
func (r *Rig) Kill(name string) {
	p := r.Process(name)
	_ = p.Cmd.Process.Kill()
	<-p.Done
}

// RestartRegistered kills a process, and starts it again.
func (r *Rig) RestartRegistered(t *testing.T, name string) {
	t.Helper()
	r.Kill(name)
	check.Must(t, r.Stack.StartProcess(name, r.fileOf(name)))
	check.Must(t, r.Stack.WaitFor(t.Context(), r.Process(name), "/readyz"))
}

// authority is a CA for the TLS certificates of a deployment.
type authority struct{ *registrar.Authority }

func newAuthority(t *testing.T) authority {
	t.Helper()
	store, err := registrar.OpenFolder(t.TempDir())
	check.Must(t, err)
	t.Cleanup(func() { check.Must(t, store.Close()) })
	a := authority{&registrar.Authority{Key: MemoryKey(t, "ca"), Store: store, TrustDomain: "example.org", Now: time.Now}}
	check.Must(t, a.Open(context.WithoutCancel(t.Context())))
	return a
}

// issue writes a certificate and its key into one file.
func (a authority) issue(t *testing.T, file, path string, names ...string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	check.Must(t, err)
	_, certificate, err := a.Issue(t.Context(), registrar.Leaf{Path: path, DNSNames: names, Public: public,
		Lifetime: 24 * time.Hour})
	check.Must(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(private)
	check.Must(t, err, os.MkdirAll(filepath.Dir(file), 0o700))
	Write(t, file, certificate+string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
}
