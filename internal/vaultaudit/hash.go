package vaultaudit

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/vault/api"
)

// AuditHash asks Vault for hashes under the salt of an audit device. The token of c needs update on
// sys/audit-hash/DEVICE.
func AuditHash(c *api.Client, device string) Hash {
	return func(ctx context.Context, text string) (string, error) {
		secret, err := c.Logical().WriteWithContext(ctx, "sys/audit-hash/"+device, map[string]any{"input": text})
		if err != nil {
			return "", fmt.Errorf("hash as the audit device %s does: %w", device, err)
		}
		if secret != nil {
			if hash, ok := secret.Data["hash"].(string); ok {
				return hash, nil
			}
		}
		return "", errors.New("the answer of Vault has no hash")
	}
}
