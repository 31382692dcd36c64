package vault_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
)

type countingVault struct {
	mu       sync.Mutex
	asked    map[string]int // by the first parts of the path
	versions int
	private  ed25519.PrivateKey
	conns    chan net.Conn
	ended    chan struct{}
}

func newCountingVault(t *testing.T) (*countingVault, *vault.Server) {
	t.Helper()
	c := &countingVault{asked: make(map[string]int), versions: 1, conns: make(chan net.Conn),
		ended: make(chan struct{})}
	_, c.private, _ = ed25519.GenerateKey(nil)
	s, err := vault.NewServer(vault.Options{Address: "http://127.0.0.1:8200", Log: zap.NewNop(), Now: time.Now})
	check.Must(t, err)
	s.DialWith(func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case c.conns <- theirs:
			return ours, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	server := &http.Server{Handler: c}
	go func() { _ = server.Serve(c) }()
	t.Cleanup(func() {
		_ = s.Close()
		_ = server.Close()
	})
	return c, s
}

func (c *countingVault) Accept() (net.Conn, error) {
	select {
	case conn := <-c.conns:
		return conn, nil
	case <-c.ended:
		return nil, net.ErrClosed
	}
}

func (c *countingVault) Close() error {
	close(c.ended)
	return nil
}

func (c *countingVault) Addr() net.Addr { return &net.TCPAddr{} }

func (c *countingVault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/v1/"), "transit/"), "/mediator-")
	c.asked[what]++
	data := map[string]any{}
	switch what {
	case "keys":
		keys := map[string]any{}
		public := base64.StdEncoding.EncodeToString(c.private.Public().(ed25519.PublicKey))
		for i := range c.versions {
			keys[fmt.Sprint(i+1)] = map[string]any{"public_key": public}
		}
		data = map[string]any{"type": "ed25519", "keys": keys}
	case "sys/capabilities-self":
		var ask struct{ Paths []string }
		if json.NewDecoder(r.Body).Decode(&ask) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, path := range ask.Paths {
			data[path] = []string{"deny"}
		}
	case "auth/approle/login": // as of a Vault that starts many sidecars
		time.Sleep(10 * time.Second)
		_ = json.NewEncoder(w).Encode(map[string]any{"auth": map[string]any{"client_token": "token"}})
		return
	case "sys/wrapping/lookup":
		data["creation_path"] = "auth/approle/role/signer/secret-id"
		if c.asked["sys/wrapping/unwrap"] > 0 {
			w.WriteHeader(http.StatusBadRequest)
		}
	case "sys/wrapping/unwrap":
		c.mu.Unlock()
		time.Sleep(time.Minute)
		c.mu.Lock()
		data["secret_id"] = "secret"
	case "database/creds/reports", "sys/leases/renew/database/creds/reports/1":
		token := fmt.Sprint(c.asked["database/creds/reports"])
		if what != "database/creds/reports" {
			time.Sleep(time.Second)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"lease_id": "database/creds/reports/" + token,
			"lease_duration": 100, "renewable": true, "data": map[string]any{"token": token}})
		return
	case "auth/token/lookup-self":
		data = map[string]any{"policies": []string{"mediator-role"}, "ttl": 3600}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
}

func (c *countingVault) taken() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked
	c.asked = make(map[string]int)
	return asked
}

// TestLoadWhenIdle: seven keys in an hour without posts. Each request is two lines of audit log.
func TestLoadWhenIdle(t *testing.T) {
	token := write(t, "token")
	synctest.Test(t, func(t *testing.T) {
		c, s := newCountingVault(t)
		var keys []*vault.Key
		for i := range 7 {
			k, err := s.Key(t.Context(), fmt.Sprintf("mediator-%d", i), &vault.TokenFile{Path: token})
			check.Must(t, err)
			keys = append(keys, k)
		}
		c.taken()
		for range 360 { // as the sidecar and keys certify --watch look
			time.Sleep(10 * time.Second)
			for _, k := range keys {
				for _, l := range k.Observe(t.Context(), 5*time.Minute) {
					if l.Result != look.Holds {
						t.Fatalf("%+v", l)
					}
				}
				if _, err := k.Versions(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		asked, sum := c.taken(), 0
		for _, n := range asked {
			sum += n
		}
		lines := float64(2*sum) / 3600
		t.Logf("%.2f lines a second: %v", lines, asked)
		if asked["keys"] < 7*350 || asked["keys"] > 7*361 || asked["sys/capabilities-self"] > 7*13 || lines > 1.6 {
			t.Errorf("%.2f lines a second: %v", lines, asked)
		}
	})
}

func TestLoadInUse(t *testing.T) {
	token := write(t, "token")
	synctest.Test(t, func(t *testing.T) {
		c, s := newCountingVault(t)
		opened := time.Now()
		k, err := s.Key(t.Context(), "mediator-key", &vault.TokenFile{Path: token})
		check.Must(t, err)
		current := func() string {
			t.Helper()
			v, err := k.Current(t.Context())
			check.Must(t, err)
			return v.KeyID()
		}
		c.taken()
		for range 6000 {
			time.Sleep(10 * time.Millisecond)
			current()
		}
		if n := c.taken()["keys"]; n < 25 || n > 36 {
			t.Errorf("it was read %d times in a minute of use", n)
		}
		rotate := func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.versions++
		}
		rotate()
		time.Sleep(2100 * time.Millisecond)
		current() // reads it
		synctest.Wait()
		if got := current(); got != "mediator-key:v2" {
			t.Errorf("two seconds after it was rotated in use it signs with %s", got)
		}
		time.Sleep(11*time.Second - time.Since(opened)%(10*time.Second)) // a second after a periodic reading
		rotate()
		time.Sleep(6 * time.Second)
		if got := current(); got != "mediator-key:v3" {
			t.Errorf("after 6 s without use it signs with %s", got)
		}
	})
}

// TestSlowLogin: Vault's work for a login that takes long is not thrown away, nor the secret id that it unwraps once.
func TestSlowLogin(t *testing.T) {
	auth := &vault.AppRole{RoleIDFile: write(t, "role"), SecretIDFile: write(t, "wrapping"), Wrapped: true,
		Role: "signer"}
	synctest.Test(t, func(t *testing.T) {
		c, s := newCountingVault(t)
		k := s.Prepare("mediator-key", auth)
		var err error
		for range 100 {
			if err = k.Open(t.Context()); err == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if asked := c.taken(); err != nil || asked["auth/approle/login"] != 1 {
			t.Errorf("%v, %v", err, asked)
		}
	})
}

// TestRefusedLease: a refused secret's lease is given back a minute after it was replaced, not while it is in use.
func TestRefusedLease(t *testing.T) {
	token := write(t, "token")
	synctest.Test(t, func(t *testing.T) {
		c, server := newCountingVault(t)
		s := server.Secrets(&vault.TokenFile{Path: token}).Secret("database/creds/reports", 0)
		wantSecret(t, s, "1")
		time.Sleep(95 * time.Second)
		var renewal sync.WaitGroup
		renewal.Go(func() { wantSecret(t, s, "1") })
		time.Sleep(time.Second / 2)
		s.Refused("token", "1") // while it is renewed
		renewal.Wait()
		wantSecret(t, s, "2")
		for wait, revoked := range []int{0, 1, 0} {
			time.Sleep([]time.Duration{vault.MaxHeld - time.Second, 2 * time.Second, 10 * time.Second}[wait])
			asked := c.taken()
			if asked["sys/leases/revoke/database/creds/reports/1"] != revoked ||
				asked["sys/leases/revoke/database/creds/reports/2"] != 0 {
				t.Errorf("%v", asked)
			}
		}
	})
}
