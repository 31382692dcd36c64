package vault_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
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

// countingVault answers in memory and counts requests. It has one key under every name.
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
	c := &countingVault{asked: make(map[string]int), versions: 1, conns: make(chan net.Conn), ended: make(chan struct{})}
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

// TestLoadInUse: a signing key is read twice a second.
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
		if n := c.taken()["keys"]; n < 100 || n > 130 {
			t.Errorf("it was read %d times in a minute of use", n)
		}
		rotate := func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.versions++
		}
		rotate()
		time.Sleep(600 * time.Millisecond)
		current() // reads it
		synctest.Wait()
		if got := current(); got != "mediator-key:v2" {
			t.Errorf("half a second after it was rotated in use it signs with %s", got)
		}
		time.Sleep(11*time.Second - time.Since(opened)%(10*time.Second)) // a second after a periodic reading
		rotate()
		time.Sleep(6 * time.Second)
		if got := current(); got != "mediator-key:v3" {
			t.Errorf("after 6 s without use it signs with %s", got)
		}
	})
}

// TestAuditLines: lines grow only with accepted versions.
func TestAuditLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	server.Write(t, "sys/audit/file", map[string]any{"type": "file", "options": map[string]any{"file_path": path}})
	defer func() { check.Must(t, server.Client(t).Sys().DisableAuditWithContext(t.Context(), "file")) }()
	mount, auth := newKey(t)
	s := open(t, vault.Options{Mount: mount, Refresh: time.Hour})
	k, err := s.Key(t.Context(), "k", auth, "a", "b", "c", "d", "e", "f")
	check.Must(t, err)
	measure := func(do func()) (lines, bytes int) {
		t.Helper()
		before, err := os.ReadFile(path)
		check.Must(t, err)
		do()
		after, err := os.ReadFile(path)
		check.Must(t, err)
		return strings.Count(string(after[len(before):]), "\n"), len(after) - len(before)
	}
	read := func() { check.Must(t, k.Read(t.Context())) }
	lines, one := measure(read)
	if lines != 2 {
		t.Errorf("a reading is %d lines", lines)
	}
	for range 9 {
		server.Write(t, mount+"/keys/k/rotate", nil)
	}
	_, ten := measure(read)
	server.Write(t, mount+"/keys/k/config", map[string]any{"min_decryption_version": 10})
	_, retired := measure(read)
	if retired > one+one/10 {
		t.Errorf("a reading has %d bytes with one version, and %d after nine were retired", one, retired)
	}
	lines, look := measure(func() { k.Observe(t.Context(), time.Hour) })
	if lines != 4 { // the token, and what it may do
		t.Errorf("a look is %d lines", lines)
	}
	if again, _ := measure(func() { k.Observe(t.Context(), time.Hour) }); again != 0 {
		t.Errorf("a second look is %d lines", again)
	}
	const keys, readings, looks = 7, 24 * 3600 / 10, 24 * 3600 / 300
	t.Logf("a reading: %d bytes, and %d for each further version; a look: %d; a day without posts: %.2f GB",
		one, (ten-one)/9, look, float64(keys*(readings*one+looks*look))/1e9)
}
