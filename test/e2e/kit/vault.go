package kit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
)

// InVault has the processes keep their keys in a Vault server, where they log in by the files in a folder.
func InVault(address, ca, auth string) func(file string) string {
	var keys []string
	for _, r := range append(slices.Clone(bootstrap.Roles), bootstrap.Log, bootstrap.BotAuth) {
		keys = append(keys, r.Key)
	}
	return func(file string) string {
		return strings.Replace(file, "custody: {type: memory}", fmt.Sprintf(`custody:
  type: vault
  vault:
    address: %s
    ca: %s
    keys: [%s]
    auth:
      appRole:
        role: "mediator-{role}"
        roleIDFile: "%[4]s/{role}.role-id"
        secretIDFile: "%[4]s/{role}.secret-id"`, address, ca, strings.Join(keys, ", "), auth), 1)
	}
}
