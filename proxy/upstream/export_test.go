package upstream

import (
	"context"
	"net"
)

// Dial connects to address, and says which way.
func Dial(ctx context.Context, d *Dialer, address string) (net.Conn, Via, error) {
	return d.dial(ctx, address)
}

// Patient is how a connection with a client's certificate is written.
func Patient(c net.Conn) net.Conn { return counted{stream: c.(stream), patient: true} }
