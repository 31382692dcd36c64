// Package keys has the commands of the security team: keys, deployment and ca, and vault for keys in HashiCorp Vault.
package keys
