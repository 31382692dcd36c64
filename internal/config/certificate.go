package config

import (
	"cmp"
	"strings"

	"github.com/actionproof/mediator/proxy/credential"
)

// ClientCertificate authenticates the mediator at an API by mutual TLS. An API that does not ask for it gets no call.
type ClientCertificate struct {
	// File holds the certificate, followed by those that lead to its CA, in PEM. Each call reads it. Set one of `file`,
	// `vault`.
	File string `yaml:"file" is:"path"`
	// KeyFile holds the certificate's key, in PEM. Default: `file` holds both.
	KeyFile string `yaml:"keyFile" is:"path"`
	// Vault issues certificates by the PKI engine of custody's Vault, as role api_credential, and holds their keys in
	// memory.
	Vault *VaultCertificate `yaml:"vault"`
}

// VaultCertificate is a certificate that Vault issues.
type VaultCertificate struct {
	// Path is issue and a role after the engine's mount, such as pki/issue/mediator.
	Path string `yaml:"path" need:"yes"`
	// CommonName is the certificate's name, which the role must allow.
	CommonName string `yaml:"commonName" need:"yes"`
}

// Files returns the files of the certificate and its key; both are empty for one from Vault.
func (c *ClientCertificate) Files() (certificate, key string) {
	return c.File, cmp.Or(c.KeyFile, c.File)
}

// check checks the client certificate of a rule, if it has one. It reads its files once.
func (c *Sidecar) checkCertificate(key string, r *ClientCertificate, scheme string, f *findings) {
	if r == nil {
		return
	}
	if scheme == "http" {
		f.Add(key, "needs an https URL in match")
	}
	if (r.File == "") == (r.Vault == nil) {
		f.Add(key, "needs exactly one of file, vault")
		return
	}
	if v := r.Vault; v != nil {
		v.check(key, r.KeyFile, f)
		if c.Custody.Vault == nil {
			f.Add(key+".vault", "needs custody.type: vault")
		}
	} else if !f.noSecrets {
		certificate, keyFile := r.Files()
		if err := credential.CheckCertificateFiles(certificate, keyFile); err != nil {
			f.Add(key+".file", "%v", err)
		}
	}
}

func (v *VaultCertificate) check(key, keyFile string, f *findings) {
	if keyFile != "" {
		f.Add(key+".keyFile", "has no meaning with vault, which makes the key")
	}
	if v.Path != "" && !strings.Contains(v.Path, "/issue/") {
		f.Add(key+".vault.path", "must be issue and a role after the mount of a PKI engine, such as pki/issue/mediator")
	}
}
