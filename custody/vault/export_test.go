package vault

import (
	"context"
	"net"
)

// Key prepares and opens a key, as tests need it.
func (s *Server) Key(ctx context.Context, name string, auth Auth, others ...string) (*Key, error) {
	k := s.Prepare(name, auth, others...)
	if err := k.Open(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *Key) Read(ctx context.Context) error { return k.read(ctx) }

func (s *Secrets) Login(ctx context.Context) error {
	return s.session.login(ctx, s.session.client.Token())
}

func (s *Server) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	s.transport.DialContext = dial
}
