package credential_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/proxy/credential"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/tlstest"
)

// A certificate follows its files, and is refused while they are of no use.
func TestCertificateFiles(t *testing.T) {
	ca, dir, now := tlstest.New(t), t.TempDir(), time.Now()
	certificate, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	c := credential.NewCertificate("rule", credential.CertificateFiles(certificate, key, time.Now),
		func() time.Time { return now })
	hash := ""
	wants := func(says string) {
		t.Helper()
		got, err := c.Resolve(t.Context())
		if says != "" {
			check.WantCode(t, err, "custody_unavailable")
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%v", err)
			}
			return
		}
		check.Must(t, err)
		again, err := c.Resolve(t.Context())
		check.Must(t, err)
		pair, err := tls.LoadX509KeyPair(certificate, key)
		check.Must(t, err)
		want := evidence.HashBytes([]byte(`{"id":"` + evidence.HashBytes(pair.Leaf.Raw) +
			`","kind":"certificate","version":""}`))
		if got.Certificate != again.Certificate || got.Name != "rule" || got.Hash() != want || want == hash {
			t.Errorf("%s, want %s", got.Hash(), want)
		}
		hash = want
		if said := fmt.Sprintf("%v %+v %#v %v", c, got, got, got.Client); strings.Trim(said, "REDACT ") != "" {
			t.Error(said)
		}
	}
	wants("cannot be read")
	first, firstKey := ca.Certify(t, nil)
	tlstest.Replace(t, certificate, first)
	tlstest.Replace(t, key, firstKey)
	wants("")
	second, secondKey := ca.Certify(t, nil)
	tlstest.Replace(t, certificate, second)
	wants("private key does not match public key")
	tlstest.Replace(t, key, secondKey)
	wants("")
	now = now.Add(2 * time.Hour)
	wants("is valid from")
	now = now.Add(-4 * time.Hour)
	wants("is valid from")
	if s := c.Stats(); s.Failures != 4 || s.End.IsZero() || s.Read.IsZero() {
		t.Errorf("%+v", s)
	}
	var none *credential.Certificate
	p, err := none.Resolve(t.Context())
	if err != nil || p.Client.Certificate != nil || p.Hash() != evidence.HashBytes(nil) {
		t.Errorf("%v, %v", p, err)
	}
}

// A certificate from Vault is renewed in the second half of its life, used to its end if that fails, and replaced after
// a refusal.
func TestVaultCertificate(t *testing.T) {
	ca, now, issued, away := tlstest.New(t), time.Now(), 0, false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked map[string]string
		if err := json.NewDecoder(r.Body).Decode(&asked); away || err != nil || r.URL.Path != "/v1/pki/issue/m" ||
			asked["common_name"] != "m.example" {
			http.Error(w, `{"errors": []}`, http.StatusServiceUnavailable)
			return
		}
		issued++
		certificate, key := ca.Certify(t, func(c *x509.Certificate) { c.NotAfter = now.Add(time.Hour) })
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"certificate": string(certificate),
			"private_key": string(key), "ca_chain": []string{string(ca.PEM())},
			"expiration": now.Add(time.Hour).Unix()}})
	}))
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	check.Must(t, os.WriteFile(token, []byte("a-token"), 0o600))
	clock := func() time.Time { return now }
	from, err := vault.NewServer(vault.Options{Address: server.URL, Log: zap.NewNop(), Now: clock,
		Timeout: time.Minute})
	check.Must(t, err)
	t.Cleanup(func() { _ = from.Close() })
	c := credential.NewCertificate("rule", credential.VaultCertificate(from.Secrets(&vault.TokenFile{Path: token}),
		"pki/issue/m", "m.example", clock), clock)
	wants := func(want int) (p credential.Presented) {
		t.Helper()
		p, err := c.Resolve(t.Context())
		check.Must(t, err)
		if issued != want || len(p.Client.Certificate.Certificate) != 2 {
			t.Errorf("%d were issued, want %d", issued, want)
		}
		return p
	}
	wants(1)
	now = now.Add(29 * time.Minute)
	wants(1)
	now = now.Add(2 * time.Minute)
	p := wants(2)
	now = now.Add(31 * time.Minute)
	away = true
	if again := wants(2); again.Certificate != p.Certificate {
		t.Error("it is not used to its end")
	}
	now = now.Add(30 * time.Minute)
	_, err = c.Resolve(t.Context())
	check.WantCode(t, err, "custody_unavailable")
	away = false
	now = now.Add(time.Minute)
	p = wants(3)
	for range 100 { // an agent has found a host that refuses every certificate
		now = now.Add(time.Second)
		p.Refused()
		p = wants(3)
	}
	now = now.Add(2 * time.Minute)
	p.Refused()
	p.Refused()
	wants(4)
}
