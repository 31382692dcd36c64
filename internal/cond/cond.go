// Package cond waits for a [sync.Cond] within a context.
package cond

import (
	"context"
	"sync"
)

// Wait waits until a condition holds, which is judged after each broadcast of c, or returns why ctx has ended. The
// caller holds c.L, which Wait releases meanwhile.
func Wait(ctx context.Context, c *sync.Cond, until func() bool) error {
	defer context.AfterFunc(ctx, func() {
		c.L.Lock()
		defer c.L.Unlock()
		c.Broadcast()
	})()
	for !until() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.Wait()
	}
	return nil
}
