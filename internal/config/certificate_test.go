package config

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/tlstest"
)

// TestWrongCertificates has client certificates that cannot work, as TestWrongCredentials has credentials.
func TestWrongCertificates(t *testing.T) {
	dir, ca := t.TempDir(), tlstest.New(t)
	certificate, key := ca.Certify(t, nil)
	_, other := ca.Certify(t, nil)
	ended, endedKey := ca.Certify(t, func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Unix(1577836800, 0), time.Unix(1580515200, 0)
	})
	for name, content := range map[string][]byte{"pem": certificate, "key": key, "other": other, "empty": nil,
		"both": append(key, certificate...), "ended": append(endedKey, ended...)} {
		check.Must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	for _, tt := range []struct{ certificate, want string }{
		{`{file: pem, keyFile: key}`, ""},
		{`{file: both}`, ""},

		{`{}`, ``},
		{`{keyFile: key}`, ``},
		{`{file: both, vault: {path: pki/issue/a, commonName: a.example}}`, ``},
		{`{file: absent}`, ``},
		{`{file: empty}`, ``},
		{`{file: pem}`, ``},
		{`{file: key, keyFile: pem}`, ``},
		{`{file: pem, keyFile: other}`, ``},
		{`{file: ended}`, ``},
		{`{certificate: pem}`, ``},
		{`{file: pem, key: key}`, ``},
		{`{vault: {path: pki/issue/a}}`, ``},
		{`{vault: {commonName: a.example}}`, ``},
		{`{vault: {path: pki/sign/a, commonName: a.example}}`, ``},
		{`{keyFile: key, vault: {path: pki/issue/a, commonName: a.example}}`, ``},
		{`{vault: {path: pki/issue/a, commonName: a.example, ttl: 1h}}`, ``},
		{`{vault: pki/issue/a}`, ``},
	} {
		if got := mistakes(t, dir, "clientCertificate", tt.certificate); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.certificate, got, tt.want)
		}
	}
}

// mistakes returns what is wrong with a section of an action, which * stands for.
func mistakes(t *testing.T, dir, section, text string) string {
	t.Helper()
	path := filepath.Join(dir, "mediator.yaml")
	check.Must(t, os.WriteFile(path, []byte(strings.Replace(correctSidecar, "create_post",
		"create_post\n    "+section+": "+text, 1)), 0o600))
	_, err := LoadSidecar(path)
	if err == nil {
		return ""
	}
	return strings.NewReplacer(path+": ", "", dir+"/", "", "actions[0]."+section, "*", "line 21, column ", "",
		"\n", " | ").Replace(err.Error())
}
