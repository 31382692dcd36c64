package upstream

import (
	"context"
	"net"
)

// Dial connects to address, and says which way.
func Dial(ctx context.Context, d *Dialer, address string) (net.Conn, Via, error) {
	return d.dial(ctx, address)
}
