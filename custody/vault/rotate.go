package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/hashicorp/vault/api"

	"github.com/actionproof/mediator/custody"
)

// Owner rotates and retires keys: an administrator, never a signing role.
type Owner struct{ session *session }

// Owner prepares for working on keys with auth.
func (s *Server) Owner(auth Auth) *Owner { return &Owner{s.session("the keys' owner", auth)} }

// Rotate makes a new version and returns its number. Processes sign with it once it is certified.
func (o *Owner) Rotate(ctx context.Context, key string) (version int, err error) {
	was, err := o.describe(ctx, key)
	if err != nil {
		return 0, err
	}
	now, err := o.change(ctx, key, "rotate", nil, func(now ownedKey) bool { return now.latest > was.latest },
		fmt.Sprintf("the key %s is not rotated", key))
	return now.latest, err
}

// Retire makes Vault accept no version before oldest: processes stop publishing them, and verifiers refuse their
// signatures. It also raises a lower min_encryption_version, which Vault requires.
func (o *Owner) Retire(ctx context.Context, key string, oldest int) error {
	k, err := o.describe(ctx, key)
	if err != nil {
		return err
	}
	if oldest < k.oldest || oldest > k.latest {
		return fmt.Errorf("the key %s has the versions %d to %d; the oldest to keep cannot be %d", key, k.oldest,
			k.latest, oldest)
	}
	config := map[string]any{"min_decryption_version": strconv.Itoa(oldest)}
	if k.signs > 0 && k.signs < oldest {
		config["min_encryption_version"] = strconv.Itoa(oldest)
	}
	_, err = o.change(ctx, key, "config", config, func(now ownedKey) bool { return now.oldest >= oldest },
		fmt.Sprintf("the versions of the key %s before %d are not retired", key, oldest))
	return err
}

// change changes a key, and then reads it: Vault's answer may be lost, or wrong. undone is the error's sentence.
func (o *Owner) change(ctx context.Context, key, operation string, data map[string]any, made func(ownedKey) bool,
	undone string) (ownedKey, error) {
	err := o.write(ctx, "keys/"+key+"/"+operation, data)
	var answer *api.ResponseError
	if errors.As(err, &answer) && refuses(answer) {
		return ownedKey{}, notDone(err, "%s", undone)
	}
	now, unread := o.describe(ctx, key)
	switch {
	case unread != nil:
		return ownedKey{}, custody.Unavailable(unread, "%s, as far as is known: %v", undone, unread)
	case made(now):
		return now, nil
	case err != nil:
		return ownedKey{}, notDone(err, "%s", undone)
	}
	return ownedKey{}, custody.Unavailable(nil, "%s, although Vault says so", undone)
}

func (o *Owner) write(ctx context.Context, path string, data map[string]any) error {
	// call could ask twice, and rotate twice.
	if o.session.client.Token() == "" {
		if err := o.session.login(ctx, ""); err != nil {
			return err
		}
	}
	_, err := o.session.client.Logical().WriteWithContext(ctx, o.session.server.o.Mount+"/"+path, data)
	return err
}

type ownedKey struct {
	oldest, latest int // accepted versions
	signs          int // oldest signing version; 0 if not set
}

func (o *Owner) describe(ctx context.Context, key string) (k ownedKey, err error) {
	secret, err := o.session.read(ctx, o.session.server.o.Mount+"/keys/"+key)
	if err != nil {
		return k, notDone(err, "the key %s cannot be read", key)
	}
	if secret == nil {
		return k, custody.Unavailable(nil, "Vault has no key %s in %s", key, o.session.server.o.Mount)
	}
	number := func(name string) int {
		n, _ := secret.Data[name].(json.Number)
		v, _ := n.Int64()
		return int(v)
	}
	k = ownedKey{oldest: number("min_decryption_version"), latest: number("latest_version"),
		signs: number("min_encryption_version")}
	if k.oldest < 1 || k.latest < k.oldest || k.signs < 0 {
		return ownedKey{}, custody.Unavailable(nil, "Vault's description of the key %s cannot be read", key)
	}
	return k, nil
}

// notDone is custody_refused with Vault's reason if Vault would refuse again, else custody_unavailable.
func notDone(err error, what string, args ...any) error {
	sentence := fmt.Sprintf(what, args...) + ": " + why(err)
	var answer *api.ResponseError
	if !errors.As(err, &answer) || !refuses(answer) || invalidToken(err) {
		return custody.Unavailable(err, "%s", sentence)
	}
	return custody.Refused(err, "%s%s", sentence, reason(answer))
}
