package vault

import "context"

// Read reads the key now.
func (k *Key) Read(ctx context.Context) error { return k.read(ctx) }
