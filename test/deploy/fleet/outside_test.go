package fleet_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/deploy/node"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
	"github.com/actionproof/mediator/test/tlstest"
)

// api is what the agents post to, and the database of their records.
type api struct {
	local string // how this machine connects to the database

	mu    sync.Mutex // guards below
	count int
	posts map[string]int // by the body
}

func (a *api) total() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

func (a *api) times(body string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.posts[body]
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if body, err := io.ReadAll(r.Body); err == nil && r.Method == http.MethodPost {
		a.mu.Lock()
		a.count, a.posts[string(body)] = a.count+1, a.posts[string(body)]+1
		a.mu.Unlock()
	}
	w.WriteHeader(http.StatusCreated)
}

// install starts what is outside of the cluster, and installs the chart.
func (f *fleet) install() {
	f.t.Helper()
	authority := tlstest.New(f.t)
	f.api = &api{posts: make(map[string]int)}
	server := &http.Server{Handler: f.api}
	go server.Serve(tls.NewListener(f.Listen("203.0.113.7:443", "api.example.com"), of(f.t, authority, "api.example.com")))
	f.t.Cleanup(func() { server.Close() })
	dsn := f.database(authority)
	for _, namespace := range []string{"mediator", "agents"} {
		_, err := f.Client.CoreV1().Namespaces().Create(f.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: namespace}}, metav1.CreateOptions{})
		check.Must(f.t, err)
		_, err = f.Client.CoreV1().Secrets(namespace).Create(f.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: "mediator-database"}, StringData: map[string]string{"dsn": dsn, "event-secret": strings.Repeat("e", 32)},
		}, metav1.CreateOptions{})
		check.Must(f.t, err)
	}
	f.old = f.image("mediator", "ghcr.io/actionproof/mediator", "../../../cmd/mediator")
	f.new = f.image("mediator", "ghcr.io/actionproof/mediator", "../../../cmd/mediator", "-ldflags=-buildid=another")
	for _, image := range []node.Image{f.old, f.new} {
		check.Must(f.t, os.MkdirAll(filepath.Join(image.Dir, "etc/ssl/certs"), 0o755))
		check.Must(f.t, os.WriteFile(filepath.Join(image.Dir, "etc/ssl/certs/ca-certificates.crt"), authority.PEM(), 0o644))
	}
	f.args = []string{"--set", "image.alsoDigests={" + f.old.Digest + "," + f.new.Digest + "}",
		"--set", "storage.type=postgres", "--set", "sidecar.resolvers={" + node.DNSService + "}",
		"--set", "trigger.config.sources[0].schedule.cron=@every 1s", "--set", "trigger.config.budget=100000",
		"--set", "trigger.config.maxAge=24h", "--set", "sidecar.config.upstreams[0].host=api.example.com:443",
		"--set", "sidecar.config.upstreams[0].networks[0]=203.0.113.0/24"}
	f.helm("install", append(f.args, "--set", "image.digest="+f.old.Digest)...)
	f.WaitReady("mediator", "deployment/mediator-registrar", "deployment/mediator-trigger", "deployment/mediator-control")
	f.Apply("",
		`{apiVersion: v1, kind: Namespace, metadata: {name: agents, labels: {actionproof.github.io/inject: enabled}}}`)
	f.wait("the sidecar is injected", func() (bool, string) {
		pod := `{apiVersion: v1, kind: Pod, metadata: {name: probe}, spec: {containers: [{name: c, image: x}]}}`
		err := f.TryApply("agents", pod)
		if err == nil { // no policy has refused an image without a digest
			f.Delete("agents", pod)
			return false, "it is not"
		}
		return strings.Contains(err.Error(), "digest"), err.Error()
	})
}

// image builds a program into an image of its own.
func (f *fleet) image(program, name, pkg string, flags ...string) node.Image {
	f.t.Helper()
	dir := f.t.TempDir()
	args := append([]string{"build", "-trimpath", "-buildvcs=false"}, flags...)
	args = append(args, "-o", filepath.Join(dir, program), ".")
	cmd := exec.CommandContext(f.t.Context(), "go", args...)
	cmd.Dir, cmd.Env = pkg, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("go %v: %v: %s", args, err, out)
	}
	return f.RegisterImage(node.Image{Name: name, Dir: dir, Entrypoint: []string{"/" + program}, User: "65532:65532"})
}

func of(t *testing.T, authority *tlstest.Authority, host string) *tls.Config {
	t.Helper()
	certificate, key := authority.Certify(t, func(c *x509.Certificate) { c.DNSNames = []string{host} })
	pair, err := tls.X509KeyPair(certificate, key)
	check.Must(t, err)
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// database makes a database that pods reach as db.example, and returns how.
func (f *fleet) database(authority *tlstest.Authority) string {
	f.t.Helper()
	f.api.local = pgtest.Start(f.t, "max_connections=1000").Database(f.t)
	u, err := url.Parse(f.api.local)
	check.Must(f.t, err)
	l, with := f.Listen("203.0.113.9:5432", "db.example"), of(f.t, authority, "db.example")
	serve := func(client net.Conn) {
		defer client.Close()
		request := make([]byte, 8) // PostgreSQL's SSLRequest: a length of 8, and a code
		if _, err := io.ReadFull(client, request); err != nil || binary.BigEndian.Uint32(request[4:]) != 80877103 {
			return
		}
		if _, err := client.Write([]byte("S")); err != nil {
			return
		}
		server, err := net.Dial("unix", filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432"))
		if err != nil {
			return
		}
		defer server.Close()
		secure := tls.Server(client, with)
		go func() {
			_, _ = io.Copy(server, secure)
			server.Close()
		}()
		_, _ = io.Copy(secure, server)
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go serve(client)
		}
	}()
	return "postgres://" + u.Query().Get("user") + "@db.example/" + strings.TrimPrefix(u.Path, "/") +
		"?sslmode=verify-full"
}
