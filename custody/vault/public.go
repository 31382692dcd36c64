package vault

import (
	"context"

	"github.com/actionproof/mediator/custody"
)

// PublicKeys reads the public keys of any key of the Transit engine, and signs nothing.
type PublicKeys struct{ session *session }

// PublicKeys makes a reader without a request to Vault. Call Open next.
func (s *Server) PublicKeys(auth Auth) *PublicKeys {
	return &PublicKeys{s.session("public keys", auth)}
}

// Ready is like [Key.Ready].
func (p *PublicKeys) Ready(ctx context.Context) error { return p.session.ready(ctx) }

// Open logs in. Call it again after an error.
func (p *PublicKeys) Open(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, p.session.server.o.Timeout)
	defer cancel()
	if err := p.session.login(within, ""); err != nil {
		return custody.Unavailable(err, "no public keys can be read: %s", why(err))
	}
	p.session.reached.Store(true)
	return nil
}

// Public returns the versions of a key that Vault accepts now, oldest first, and what Vault says of the key. The
// versions cannot sign.
func (p *PublicKeys) Public(ctx context.Context, name string) ([]custody.Version, custody.Properties, error) {
	k := &Key{session: p.session, name: name, pinned: make(map[int]custody.Version)}
	k.state.Store(&state{})
	err := k.read(ctx)
	p.session.reached.Store(true) // a failure is not tried again: it says nothing about Vault's health
	if err != nil {
		return nil, custody.Properties{}, err
	}
	versions := k.state.Load().versions
	for i, v := range versions {
		versions[i] = v.WithoutSigner()
	}
	return versions, k.Properties(), nil
}
