package vault_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/test/check"
)

// between is a proxy that counts the requests for signatures, holds the first, and changes answers.
type between struct {
	url     string
	arrived chan struct{}                                       // closed when the first request is here
	release chan struct{}                                       // closed to let it through
	change  func(messages []string, results []any) (answer any) // nil changes nothing

	mu    sync.Mutex
	sizes []int // signatures in each request
}

func newBetween(t testing.TB) *between {
	t.Helper()
	target, err := url.Parse(server.Address)
	check.Must(t, err)
	ca, err := os.ReadFile(server.CAFile)
	check.Must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	b := &between{arrived: make(chan struct{}), release: make(chan struct{})}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 64}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/sign/") {
			proxy.ServeHTTP(w, r)
			return
		}
		b.sign(w, r, proxy)
	}))
	t.Cleanup(front.Close)
	b.url = front.URL
	return b
}

func (b *between) sign(w http.ResponseWriter, r *http.Request, vault http.Handler) {
	var asked struct {
		Batch []struct{ Input []byte } `json:"batch_input"`
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(raw, &asked) != nil {
		http.Error(w, "not a request for signatures", http.StatusTeapot)
		return
	}
	b.mu.Lock()
	b.sizes = append(b.sizes, len(asked.Batch))
	first := len(b.sizes) == 1
	b.mu.Unlock()
	if first {
		close(b.arrived)
		<-b.release
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	if b.change == nil {
		vault.ServeHTTP(w, r)
		return
	}
	r.Header.Del("Accept-Encoding")
	answered := httptest.NewRecorder()
	vault.ServeHTTP(answered, r)
	var answer struct {
		Data map[string]any `json:"data"`
	}
	messages := make([]string, len(asked.Batch))
	for i, m := range asked.Batch {
		messages[i] = string(m.Input)
	}
	if err := json.Unmarshal(answered.Body.Bytes(), &answer); err == nil {
		answer.Data["batch_results"] = b.change(messages, answer.Data["batch_results"].([]any))
	}
	_ = json.NewEncoder(w).Encode(answer)
}

type signed struct {
	sig []byte
	err error
}

func (b *between) signAll(t *testing.T, v custody.Version, messages []string) []signed {
	t.Helper()
	out := make([]signed, len(messages))
	var begun, done sync.WaitGroup
	begun.Add(len(messages))
	for i, m := range messages {
		done.Go(func() {
			begun.Done()
			out[i].sig, out[i].err = v.Sign(t.Context(), []byte(m))
		})
		if i == 0 {
			<-b.arrived
		}
	}
	begun.Wait()
	close(b.release)
	done.Wait()
	return out
}

func keyThrough(t testing.TB, b *between) custody.Version {
	t.Helper()
	mount, auth := newKey(t)
	k, err := open(t, vault.Options{Address: b.url, Mount: mount}).Key(t.Context(), "k", auth)
	check.Must(t, err)
	v, err := k.Current(t.Context())
	check.Must(t, err)
	return v
}

func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("message %d", i)
	}
	return out
}

func TestSignaturesShareRequests(t *testing.T) {
	b := newBetween(t)
	v, messages := keyThrough(t, b), numbered(600)
	for i, got := range b.signAll(t, v, messages) {
		if got.err != nil || !ed25519.Verify(v.Public(), []byte(messages[i]), got.sig) {
			t.Fatalf("%s: %v", messages[i], got.err)
		}
	}
	sum := 0
	for _, n := range b.sizes {
		if sum += n; n == 0 || n > 128 {
			t.Errorf("a request for %d signatures", n)
		}
	}
	if t.Logf("%v", b.sizes); sum != len(messages) || len(b.sizes) > len(messages)/10 {
		t.Errorf("%d requests for %d signatures of %d messages", len(b.sizes), sum, len(messages))
	}
}

func TestOneWrongSignature(t *testing.T) {
	const victim = "message 7"
	for name, wrong := range map[string]func(right, another map[string]any) any{
		"of another message": func(_, another map[string]any) any { return another },
		"of another version": func(right, _ map[string]any) any {
			return map[string]any{"signature": strings.Replace(right["signature"].(string), ":v1:", ":v2:", 1)}
		},
		"by another key": func(map[string]any, map[string]any) any {
			return map[string]any{"signature": byAnotherKey(victim)}
		},
		"with a byte too few": func(right, _ map[string]any) any {
			return map[string]any{"signature": "vault:v1:" + base64.StdEncoding.EncodeToString(make([]byte, 63))}
		},
		"that is none":  func(map[string]any, map[string]any) any { return map[string]any{"signature": "vault:v1:%%%"} },
		"that is empty": func(map[string]any, map[string]any) any { return map[string]any{} },
		"and an error, not one": func(right, _ map[string]any) any {
			return map[string]any{"signature": right["signature"], "error": "no"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBetween(t)
			var another map[string]any // Vault's answer to the first message
			b.change = func(messages []string, results []any) any {
				for i, m := range messages {
					if m == victim {
						results[i] = wrong(results[i].(map[string]any), another)
					}
				}
				if another == nil {
					another = results[0].(map[string]any)
				}
				return results
			}
			v, messages := keyThrough(t, b), numbered(64)
			for i, got := range b.signAll(t, v, messages) {
				if m := messages[i]; m == victim {
					wantUnavailable(t, got)
				} else if got.err != nil || !ed25519.Verify(v.Public(), []byte(m), got.sig) {
					t.Errorf("%s: %v", m, got.err)
				}
			}
		})
	}
}

func byAnotherKey(message string) string {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	return "vault:v1:" + base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte(message)))
}

func wantUnavailable(t *testing.T, got signed) {
	t.Helper()
	if got.sig != nil || !unavailable(got.err) {
		t.Errorf("%x, %v", got.sig, got.err)
	}
}

func TestSignaturesMissing(t *testing.T) {
	for name, change := range map[string]func(_ []string, results []any) any{
		"one too few":  func(_ []string, results []any) any { return results[1:] },
		"one too many": func(_ []string, results []any) any { return append(results, results[0]) },
		"none":         func([]string, []any) any { return nil },
		"not a list":   func([]string, []any) any { return "vault:v1:" },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBetween(t)
			b.change = change
			for _, got := range b.signAll(t, keyThrough(t, b), numbered(16)) {
				wantUnavailable(t, got)
			}
		})
	}
}

func BenchmarkSign(b *testing.B) {
	mount, auth := newKey(b)
	k, err := open(b, vault.Options{Mount: mount}).Key(b.Context(), "k", auth)
	check.Must(b, err)
	v, err := k.Current(b.Context())
	check.Must(b, err)
	message := bytes.Repeat([]byte("m"), 600)
	b.SetParallelism(32) // times GOMAXPROCS
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := v.Sign(b.Context(), message); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "signatures/s")
}
