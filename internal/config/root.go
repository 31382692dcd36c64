package config

import "github.com/actionproof/mediator/internal/config/secrets"

// RootKey names a root key that Vault or a PKCS #11 token holds.
type RootKey struct {
	File `yaml:"-"`

	// Purpose is signer_certificate (the key registry's key) or deployment_certificate (the auditor's). It replaces
	// {role} in custody.vault.auth.
	Purpose string `yaml:"purpose" need:"yes" one:"signer_certificate deployment_certificate"`
	// Key is the name of the key, without a version.
	Key string `yaml:"key" need:"yes"`
	// Version is the only trusted version. Default 1.
	Version int `yaml:"version"`
	// Custody says where the key is: type vault or pkcs11.
	Custody secrets.Custody `yaml:"custody" need:"yes"`
}

func (c *RootKey) checkAll(f *findings) {
	if c.Custody.Type == "memory" {
		f.Add("custody.type", "must be vault or pkcs11: a root key outlives the command that signs with it")
	}
}
