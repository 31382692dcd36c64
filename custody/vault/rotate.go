package vault

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/hashicorp/vault/api"

	"github.com/actionproof/mediator/custody"
)

// Owner is somebody who may rotate and retire keys: an administrator, never a role that signs.
type Owner struct{ session *session }

// Owner prepares for working on keys with auth.
func (s *Server) Owner(auth Auth) *Owner { return &Owner{s.session("the keys' owner", auth)} }

// Rotate gives a key a new version and returns its number. Processes sign with it once it is certified.
func (o *Owner) Rotate(ctx context.Context, key string) (version int, err error) {
	if _, _, err := o.versions(ctx, key); err != nil {
		return 0, err
	}
	if err := o.write(ctx, "keys/"+key+"/rotate", nil); err != nil {
		return 0, custody.Unavailable(err, "the key %s is not rotated: %s", key, why(err))
	}
	_, version, err = o.versions(ctx, key)
	return version, err
}

// Retire has Vault accept no version of a key before oldest any more, neither for signing nor for anything else. Processes publish them no
// more, and so verifiers refuse what they have signed. What was retired before stays so.
func (o *Owner) Retire(ctx context.Context, key string, oldest int) error {
	kept, latest, err := o.versions(ctx, key)
	if err != nil {
		return err
	}
	if oldest < kept || oldest > latest {
		return fmt.Errorf("the key %s has the versions %d to %d; the oldest to keep cannot be %d", key, kept, latest, oldest)
	}
	if err := o.write(ctx, "keys/"+key+"/config", map[string]any{"min_decryption_version": strconv.Itoa(oldest)}); err != nil {
		return custody.Unavailable(err, "the versions of the key %s before %d are not retired: %s", key, oldest, why(err))
	}
	return nil
}

func (o *Owner) write(ctx context.Context, path string, data map[string]any) error {
	// Asked for once, whatever breaks: to rotate twice is not to rotate.
	if o.session.client.Token() == "" {
		if err := o.session.login(ctx, ""); err != nil {
			return err
		}
	}
	_, err := o.session.client.Logical().WriteWithContext(ctx, o.session.server.o.Mount+"/"+path, data)
	return err
}

// versions returns the oldest version of a key that Vault still accepts, and the latest one.
func (o *Owner) versions(ctx context.Context, key string) (oldest, latest int, err error) {
	var secret *api.Secret
	err = o.session.call(ctx, func(ctx context.Context, c *api.Client) (err error) {
		secret, err = c.Logical().ReadWithContext(ctx, o.session.server.o.Mount+"/keys/"+key)
		return err
	})
	if err != nil {
		return 0, 0, custody.Unavailable(err, "the key %s cannot be read: %s", key, why(err))
	}
	if secret == nil {
		return 0, 0, custody.Unavailable(nil, "Vault has no key %s in %s", key, o.session.server.o.Mount)
	}
	number := func(name string) int {
		n, _ := secret.Data[name].(json.Number)
		v, _ := n.Int64()
		return int(v)
	}
	if oldest, latest = number("min_decryption_version"), number("latest_version"); oldest < 1 || latest < oldest {
		return 0, 0, custody.Unavailable(nil, "Vault's description of the key %s cannot be read", key)
	}
	return oldest, latest, nil
}
