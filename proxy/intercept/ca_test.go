package intercept

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/check"
)

func newCA(t testing.TB, o CAOptions) *CA {
	t.Helper()
	o.Now = time.Now
	ca, err := NewCA(o)
	check.Must(t, err)
	return ca
}

func TestCreateAndLoadCA(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	made, err := CreateCA(dir, CAOptions{Now: time.Now})
	check.Must(t, err)
	for name, mode := range map[string]fs.FileMode{".": 0o700 | fs.ModeDir, caKeyFile: 0o600, caCertFile: 0o644} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: mode %v, error %v; want %v", name, info.Mode(), err, mode)
		}
	}
	loaded, err := LoadCA(dir, time.Now())
	check.Must(t, err)
	if !loaded.cert.Equal(made.cert) || !loaded.key.Equal(made.key) {
		t.Error("the CA that was loaded is another than the one that was made")
	}
	if _, err := CreateCA(dir, CAOptions{Now: time.Now}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second CA in the same place: %v", err)
	}
	c := made.cert
	if !c.IsCA || !c.MaxPathLenZero || c.KeyUsage != x509.KeyUsageCertSign ||
		time.Until(c.NotAfter) > defaultCALifetime || len(c.SubjectKeyId) == 0 {
		t.Errorf("the certificate is not as promised: %+v", c)
	}
	if !made.Expires().Equal(c.NotAfter) {
		t.Error("Expires is not the certificate's end")
	}
}

func TestLoadCARefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		later time.Duration
		spoil func(key, cert string) error
	}{
		"key that others may read": {0, func(key, _ string) error { return os.Chmod(key, 0o640) }},
		"key of another CA": {0, func(key, _ string) error {
			other := t.TempDir()
			_, err := CreateCA(other, CAOptions{Now: time.Now})
			return errors.Join(err, os.Rename(filepath.Join(other, caKeyFile), key))
		}},
		"expired":        {31 * 24 * time.Hour, nil},
		"not yet valid":  {-time.Hour, nil},
		"no key":         {0, func(key, _ string) error { return os.Remove(key) }},
		"no certificate": {0, func(_, cert string) error { return os.Remove(cert) }},
		"a leaf": {0, func(key, cert string) error {
			ca, err := LoadCA(filepath.Dir(key), time.Now())
			check.Must(t, err)
			l, err := newLeaves(ca, time.Now).certificate("a.example")
			check.Must(t, err)
			return os.WriteFile(cert, (&CA{cert: l.Leaf}).CertificatePEM(), 0o600)
		}},
		"no PEM": {0, func(key, _ string) error { return os.WriteFile(key, []byte("x"), 0o600) }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := CreateCA(dir, CAOptions{Now: time.Now})
			check.Must(t, err)
			if tt.spoil != nil {
				check.Must(t, tt.spoil(filepath.Join(dir, caKeyFile), filepath.Join(dir, caCertFile)))
			}
			if _, err := LoadCA(dir, time.Now().Add(tt.later)); err == nil {
				t.Error("it was loaded")
			}
		})
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	ca := newCA(t, CAOptions{})
	route := Route{Target: upstream.Target{Scheme: "https", Host: "a.example", Port: 443},
		ProxyAuthorization: "Basic c2VjcmV0"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		if got := fmt.Sprintf(verb, ca); got != "CA("+ca.cert.Subject.CommonName+")" {
			t.Errorf("CA with %s: %s", verb, got)
		}
		if got := fmt.Sprintf(verb, route); strings.Contains(got, "c2VjcmV0") {
			t.Errorf("Route with %s: %s", verb, got)
		}
	}
	for _, v := range []any{ca, route} {
		if text, err := json.Marshal(v); err != nil || strings.Contains(string(text), "c2VjcmV0") ||
			strings.Contains(string(text), `"D"`) {
			t.Errorf("JSON: %s, %v", text, err)
		}
	}
}

func TestConstrain(t *testing.T) {
	for _, test := range []struct {
		name   string
		hosts  []string
		signed map[string]bool // whether a client would believe it
	}{
		{"names", []string{"api.example.com", "*.svc.example"}, map[string]bool{
			"api.example.com": true, "v1.api.example.com": true, "x.svc.example": true, "example.com": false,
			"evil.example": false, "127.0.0.1": false, "::1": false,
		}},
		{"addresses", []string{"127.0.0.1", "2001:db8::1"}, map[string]bool{
			"127.0.0.1": true, "127.0.0.2": false, "2001:db8::1": true, "2001:db8::2": false, "api.example.com": false,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			constraints, err := Constrain(test.hosts)
			check.Must(t, err)
			ca := newCA(t, CAOptions{Constraints: constraints})
			roots := x509.NewCertPool()
			roots.AddCert(ca.cert)
			l := newLeaves(ca, time.Now)
			for host, want := range test.signed {
				c, err := l.certificate(host)
				check.Must(t, err)
				_, err = c.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
				if (err == nil) != want {
					t.Errorf("%s: %v, want it believed: %t", host, err, want)
				}
			}
		})
	}
	twice, err := Constrain(
		[]string{"b.example", "192.0.2.1", "a.example", "*.b.example", "B.example.", "::ffff:192.0.2.1"})
	check.Must(t, err)
	ca := newCA(t, CAOptions{Constraints: twice})
	if d, r := ca.cert.PermittedDNSDomains,
		ca.cert.PermittedIPRanges; !slices.Equal(d, []string{"a.example", "b.example"}) || len(r) != 1 {
		t.Errorf("the CA lists %v and %v", d, r)
	}
	for _, hosts := range [][]string{nil, {""}, {"*"}, {"a.*.example"}, {"a.example", "127.1"}, {"fe80::1%eth0"}} {
		if _, err := Constrain(hosts); err == nil {
			t.Errorf("%q was taken", hosts)
		}
	}
}

func TestNewCARefuses(t *testing.T) {
	for _, o := range []CAOptions{{}, {Now: time.Now, Lifetime: -time.Hour}} {
		if _, err := NewCA(o); err == nil {
			t.Errorf("%+v was taken", o.Lifetime)
		}
	}
}
