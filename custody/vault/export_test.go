package vault

import (
	"context"
	"net"
)

// Read reads the key now.
func (k *Key) Read(ctx context.Context) error { return k.read(ctx) }

// Login gets another token in place of the one that the secrets are read with.
func (s *Secrets) Login(ctx context.Context) error {
	return s.session.login(ctx, s.session.client.Token())
}

// DialWith has dial make the server's connections.
func (s *Server) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	s.transport.DialContext = dial
}
