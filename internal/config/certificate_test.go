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

		{`{}`,
			`24: *: needs exactly one of file, vault`},
		{`{keyFile: key}`,
			`24: *: needs exactly one of file, vault`},
		{`{file: both, vault: {path: pki/issue/a, commonName: a.example}}`,
			`24: *: needs exactly one of file, vault | 44: *.vault: needs custody.type: vault`},
		{`{file: absent}`,
			`31: *.file: the file absent of the client certificate cannot be read`},
		{`{file: empty}`,
			`31: *.file: the client certificate of the rule is not used: tls: failed to find any PEM data in ` +
				`certificate input`},
		{`{file: pem}`,
			`31: *.file: the client certificate of the rule is not used: tls: found a certificate rather than ` +
				`a key in the PEM for the private key`},
		{`{file: key, keyFile: pem}`,
			`31: *.file: the client certificate of the rule is not used: tls: failed to find certificate PEM ` +
				`data in certificate input, but did find a private key; PEM inputs may have been switched`},
		{`{file: pem, keyFile: other}`,
			`31: *.file: the client certificate of the rule is not used: tls: private key does not match ` +
				`public key`},
		{`{file: ended}`,
			`31: *.file: the client certificate of the rule is valid from 2020-01-01T00:00:00Z to ` +
				`2020-02-01T00:00:00Z only`},
		{`{certificate: pem}`,
			`25: *.certificate: is not known; known here are file, keyFile, vault`},
		{`{file: pem, key: key}`,
			`36: *.key: is not known; known here are file, keyFile, vault`},
		{`{vault: {path: pki/issue/a}}`,
			`32: *.vault.commonName: is required | 32: *.vault: needs custody.type: vault`},
		{`{vault: {commonName: a.example}}`,
			`32: *.vault.path: is required | 32: *.vault: needs custody.type: vault`},
		{`{vault: {path: pki/sign/a, commonName: a.example}}`,
			`32: *.vault: needs custody.type: vault | 39: *.vault.path: must be issue and a role after the ` +
				`mount of a PKI engine, such as pki/issue/mediator`},
		{`{keyFile: key, vault: {path: pki/issue/a, commonName: a.example}}`,
			`34: *.keyFile: has no meaning with vault, which makes the key | 46: *.vault: needs custody.type: ` +
				`vault`},
		{`{vault: {path: pki/issue/a, commonName: a.example, ttl: 1h}}`,
			`75: *.vault.ttl: is not known; known here are commonName, path`},
		{`{vault: pki/issue/a}`,
			`32: *.vault: must be keys with values, not "pki/issue/a"`},
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
	_, err := Load[Sidecar](path)
	if err == nil {
		return ""
	}
	return strings.NewReplacer(path+": ", "", dir+"/", "", "actions[0]."+section, "*", "line 21, column ", "",
		"\n", " | ").Replace(err.Error())
}
