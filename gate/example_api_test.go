package gate_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

const exampleAPI = "../examples/api"

func copied(t *testing.T) func(args ...string) string {
	t.Helper()
	dir := t.TempDir()
	check.Must(t, os.CopyFS(dir, os.DirFS(exampleAPI)))
	tree, err := filepath.Abs("..")
	check.Must(t, err)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		// GOPROXY=off: what the mediator is built with is enough. -mod=mod: the tree may need later versions.
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("mod", "edit", "-replace", "github.com/actionproof/mediator="+tree)
	return run
}

func TestExampleAPI(t *testing.T) {
	t.Parallel()
	run := copied(t)
	run("vet", "./...")
	dir := t.TempDir()
	binary := filepath.Join(dir, "api")
	run("build", "-o", binary, ".")

	k := gatetest.NewAt(t, time.Now())
	k.Files(t, dir)
	dsn := pgtest.Start(t, "max_connections=40").Database(t)
	replace(t, filepath.Join(dir, "database"), dsn)
	roots := certificate(t, dir)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	check.Must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	check.Must(t, err)
	replace(t, filepath.Join(dir, "answer.key"),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	cmd := exec.CommandContext(t.Context(), binary, "-listen", "127.0.0.1:0", "-dir", dir)
	said, err := cmd.StderrPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(said)
	next := func(text string) string {
		for lines.Scan() {
			if _, rest, ok := strings.Cut(lines.Text(), text); ok {
				return rest
			}
		}
		t.Fatalf("it ended, and did not say %q", text)
		return ""
	}
	a := &api{kit: k}
	address := next("listening on ")
	https := &http.Client{Timeout: time.Minute,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}}
	base := "https://" + address
	a.client, err = gate.NewClient(gate.ClientOptions{
		ChallengeURL: base + "/.well-known/actionproof/challenge", VerifyURL: base + "/.well-known/actionproof/verify",
		HTTP: https, Now: time.Now,
	})
	check.Must(t, err)
	k.Clock.Set(time.Now())
	capability := a.earn(t, bound("POST /posts", gatetest.Content))
	post := func(capability string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, base+"/posts",
			strings.NewReader(gatetest.Content))
		check.Must(t, err)
		r.Header.Set("Authorization", gatetest.Token)
		r.Header.Set("Content-Type", "application/json")
		if capability != "" {
			r.Header.Set(gate.CapabilityHeader, capability)
			r.Header.Set(gate.RequestProofHeader, k.Proof(t, capability, gatetest.Token))
			r.Header.Set("Content-Digest", httpsig.ContentDigest(sha256.Sum256([]byte(gatetest.Content))))
			r.Header.Set("Idempotency-Key", capabilityID(t, capability))
		}
		resp, err := https.Do(r)
		check.Must(t, err)
		defer resp.Body.Close()
		if _, _, err := gate.VerifyAnswer(r, resp, httpsig.Keys{httpsig.KeyID(public): public}, time.Now()); (err == nil) !=
			(resp.StatusCode == http.StatusCreated) {
			t.Errorf("the API's signature on %d: %v", resp.StatusCode, err)
		}
		return resp.StatusCode
	}
	for _, tt := range []struct {
		name, capability string
		status           int
		says             string
	}{
		{"without evidence", "", http.StatusUnauthorized, "refused: "},
		{"with evidence", capability, http.StatusCreated, "controlled_autonomous_path"},
		{"with the same evidence", capability, http.StatusConflict, "refused: "},
	} {
		if got := post(tt.capability); got != tt.status {
			t.Fatalf("%s: got %d, want %d", tt.name, got, tt.status)
		}
		next(tt.says)
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()

	// Replays must not use up the database's connections.
	capability = a.earn(t, bound("POST /posts", gatetest.Content))
	db, err := sql.Open("pgx", dsn)
	check.Must(t, err)
	defer db.Close()
	slow, err := db.Begin()
	check.Must(t, err)
	_, err = slow.Exec("LOCK TABLE posts")
	check.Must(t, err)
	var all sync.WaitGroup
	var made, replayed atomic.Int32
	for range 100 {
		all.Go(func() {
			switch post(capability) {
			case http.StatusCreated:
				made.Add(1)
			case http.StatusConflict:
				replayed.Add(1)
			}
		})
	}
	for waiting := 0; waiting < 16; {
		check.Must(t, db.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE "+
			"wait_event_type = 'Lock'").Scan(&waiting))
	}
	check.Must(t, slow.Rollback())
	all.Wait()
	if made.Load() != 1 || replayed.Load() != 99 {
		t.Errorf("%d made, %d replayed: the others found no connection", made.Load(), replayed.Load())
	}
}

func capabilityID(t *testing.T, capability string) string {
	t.Helper()
	claims, err := evidence.UnverifiedClaims(evidence.CapabilityKind(), capability)
	check.Must(t, err)
	return claims.ID
}

func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check.Must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	check.Must(t, err)
	crt := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	replace(t, filepath.Join(dir, "tls.crt"), string(crt))
	replace(t, filepath.Join(dir, "tls.key"),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(crt)
	return pool
}
