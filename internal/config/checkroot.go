package config

import "github.com/actionproof/mediator/evidence"

// RootPurposes are the purposes of root keys.
var RootPurposes = []string{evidence.PurposeSignerCertificate, evidence.PurposeDeploymentCertificate}

// LoadRootKey reads and checks a file that names a root key in Vault or in a token.
func LoadRootKey(path string) (*RootKey, error) {
	c := new(RootKey)
	var err error
	if c.File, err = load(path, c); err != nil {
		return nil, err
	}
	f := findings{}
	f.required("key", c.Key, "purpose", c.Purpose)
	f.choice("purpose", c.Purpose, RootPurposes...)
	if c.Version < 0 {
		f.add("version", "%d is no version", c.Version)
	}
	c.Custody.check(&f)
	if c.Custody.Type == "memory" {
		f.add("custody.type", "a root key outlives the command that signs with it: vault or pkcs11")
	}
	return c, f.err(path)
}
