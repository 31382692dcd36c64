package vault

import (
	"context"
	"net"
)

func (k *Key) Read(ctx context.Context) error { return k.read(ctx) }

func (s *Secrets) Login(ctx context.Context) error {
	return s.session.login(ctx, s.session.client.Token())
}

func (s *Server) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	s.transport.DialContext = dial
}
