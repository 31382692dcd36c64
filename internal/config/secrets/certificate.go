package secrets

import (
	"cmp"
	"strings"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/proxy/credential"
)

// ClientCertificate authenticates the mediator at an API by mutual TLS. An API that does not ask for it gets no call.
type ClientCertificate struct {
	// File holds the certificate and its chain, in PEM. Each call reads it. Set `file` or `vault`.
	File string `yaml:"file" is:"secret" choice:"yes"`
	// KeyFile holds the key. Default: `file` holds both.
	KeyFile string `yaml:"keyFile" is:"secret"`
	// Vault issues the certificate and its key, as role api_credential.
	Vault *VaultCertificate `yaml:"vault" choice:"yes"`
}

// VaultCertificate is a certificate that Vault issues.
type VaultCertificate struct {
	// Path names the PKI engine and the role, such as pki/issue/mediator.
	Path string `yaml:"path" need:"yes"`
	// CommonName is the certificate's name, which the role must allow.
	CommonName string `yaml:"commonName" need:"yes"`
}

// Files returns the files of the certificate and its key; both are empty for one from Vault.
func (c *ClientCertificate) Files() (certificate, key string) {
	return c.File, cmp.Or(c.KeyFile, c.File)
}

// Check implements [fields.Checker]. It reads the files once.
func (c *ClientCertificate) Check(key string, f *fields.Findings) {
	switch {
	case c.Vault != nil && c.KeyFile != "":
		f.Add(key+".keyFile", "has no meaning with vault, which makes the key")
	case c.Vault != nil && c.Vault.Path != "" && !strings.Contains(c.Vault.Path, "/issue/"):
		f.Add(key+".vault.path", "must be issue and a role after the mount of a PKI engine, such as pki/issue/mediator")
	case c.Vault == nil && c.File != "" && !f.NoSecrets:
		certificate, keyFile := c.Files()
		if err := credential.CheckCertificateFiles(certificate, keyFile); err != nil {
			f.Add(key+".file", "%v", err)
		}
	}
}
