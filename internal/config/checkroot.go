package config

import "github.com/actionproof/mediator/evidence"

// RootPurposes are the purposes of root keys.
var RootPurposes = []string{evidence.PurposeSignerCertificate, evidence.PurposeDeploymentCertificate}

// LoadRootKey reads and checks a file that names a root key in Vault or in a token.
func LoadRootKey(path string) (*RootKey, error) {
	return read(path, (*RootKey).checkAll)
}

func (c *RootKey) checkAll(f *findings) {
	if c.Custody.Type == "memory" {
		f.Add("custody.type", "must be vault or pkcs11: a root key outlives the command that signs with it")
	}
}

// LoadClient reads and checks a file that says how an operator's commands connect.
func LoadClient(path string) (*Client, error) { return read(path, (*Client).checkAll) }

func (c *Client) checkAll(f *findings) {
	if c.Name != "" {
		checkName("name", c.Name, f)
	}
}
