package vault_test

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/vaulttest"
)

func TestRetireBesideMinEncryptionVersion(t *testing.T) {
	for name, tt := range map[string]struct{ signs, want int }{
		"not set": {0, 0}, "an earlier one": {1, 3}, "the one before": {2, 3}, "the same": {3, 3},
		"a later one": {4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			owner, key := newOwner(t, server.Address, `"read", "update"`)
			for range 3 {
				server.Write(t, key+"/rotate", nil)
			}
			if tt.signs > 0 {
				server.Write(t, key+"/config", map[string]any{"min_encryption_version": tt.signs})
			}
			check.Must(t, owner.Retire(t.Context(), "k", 3))
			secret, err := server.Client(t).Logical().Read(key)
			check.Must(t, err)
			number := func(name string) int {
				n, _ := secret.Data[name].(json.Number).Int64()
				return int(n)
			}
			if number("min_decryption_version") != 3 || number("min_encryption_version") != tt.want {
				t.Errorf("Vault accepts from %d on and signs from %d on, want 3 and %d",
					number("min_decryption_version"), number("min_encryption_version"), tt.want)
			}
		})
	}
}

// TestOwnerReadsWhatWasDone: an owner learns whether a key was changed, also when Vault's answer is lost, or wrong.
func TestOwnerReadsWhatWasDone(t *testing.T) {
	to, err := url.Parse(server.Address)
	check.Must(t, err)
	forward := &httputil.ReverseProxy{Transport: server.Client(t).CloneConfig().HttpClient.Transport,
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }}
	lost := true
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			forward.ServeHTTP(w, r)
			return
		}
		if !lost { // it says that it was done
			w.WriteHeader(http.StatusNoContent)
			return
		}
		forward.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}))
	between.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer between.Close()
	owner, _ := newOwner(t, between.URL, `"read", "update"`)
	version, err := owner.Rotate(t.Context(), "k")
	check.Must(t, err, owner.Retire(t.Context(), "k", 2))
	check.WantEqual(t, version, 2)
	lost = false
	_, err = owner.Rotate(t.Context(), "k")
	check.WantCode(t, err, "custody_unavailable", "the key k is not rotated, although Vault says so")
}

func TestOwnerIsTold(t *testing.T) {
	proxy := server.NewProxy(t)
	owner, key := newOwner(t, proxy.Address, `"read", "update"`)
	server.Write(t, key+"/rotate", nil)
	for _, tt := range []struct {
		name, code, want string
		do               func() error
	}{
		{"a key that Vault will not rotate", "custody_refused", `Vault says "key is frozen"`, func() error {
			frozen := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					_, _ = w.Write([]byte(`{"data":{"min_decryption_version":1,"min_encryption_version":0,"latest_version":1}}`))
					return
				}
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"errors":["key is frozen"]}`))
			}))
			defer frozen.Close()
			token := &vault.TokenFile{Path: write(t, "token")}
			_, err := open(t, vault.Options{Address: frozen.URL}).Owner(token).Rotate(t.Context(), "key")
			return err
		}},
		{"a right that is not given", "custody_refused", "permission denied", func() error {
			other, key := newOwner(t, proxy.Address, `"read"`)
			server.Write(t, key+"/rotate", nil)
			return other.Retire(t.Context(), "k", 2)
		}},
		{"an outage", "custody_unavailable", "cannot be reached", func() error {
			proxy.Set(t, vaulttest.Fault{Refuse: true})
			return owner.Retire(t.Context(), "k", 2)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check.WantCode(t, tt.do(), tt.code, tt.want)
		})
	}
}

func newOwner(t *testing.T, address, capabilities string) (*vault.Owner, string) {
	t.Helper()
	mount := newTransit(t)
	token := server.TokenFor(t, mount, `path "`+mount+`/keys/*" { capabilities = [`+capabilities+`] }`, time.Hour)
	s := open(t, vault.Options{Address: address, Mount: mount})
	return s.Owner(&vault.TokenFile{Path: write(t, token)}), mount + "/keys/k"
}
