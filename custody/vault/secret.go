package vault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/vault/api"
	"golang.org/x/sync/singleflight"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/look"
)

// Secrets are the API credentials that one Vault role may read.
type Secrets struct {
	session *session
	keys    []string
}

// Secrets prepares for reading with auth. keys are the names of all signing keys, none of which auth must be able to use (see
// [Secrets.Look]).
func (s *Server) Secrets(auth Auth, keys ...string) *Secrets {
	return &Secrets{session: s.session("API credentials", auth), keys: keys}
}

// Look says what the role's token may do with keys: it must be nothing.
func (s *Secrets) Look(ctx context.Context, maxAge time.Duration) look.Observation {
	return s.session.apart(ctx, maxAge, "read them", nil, s.session.server.forbidden(s.keys))
}

// Secret is one field of one secret. It is safe for concurrent use.
type Secret struct {
	session     *session
	path, field string
	flight      singleflight.Group

	mu   sync.Mutex // guards all below
	held held
	old  bool // it was refused and is to be read again
	// pause is the least time until it is read again because it is refused.
	pause time.Duration
}

// held is a secret as it was read. It is in memory alone and is printed nowhere.
type held struct {
	value string
	read  time.Time
	until time.Time
	token string // the token that it goes with, if Vault takes it back when that one ends
}

// MaxHeld is for how long a secret without a lease is used before it is read again; one with a lease is not used when the lease is over.
const MaxHeld = time.Minute

// refusedPause is the least time between two reads of a secret that an upstream refuses. It doubles each time, up to MaxHeld: an agent may
// well find a call that its upstream always answers with 401, and some engines make a secret, with a lease, for each read.
const refusedPause = time.Second

// Secret reads a field of the secret at path, as `vault read` takes it: kv/data/github in version 2 of the KV engine, aws/creds/deploy in
// an engine that makes a secret for each reader.
func (s *Secrets) Secret(path, field string) *Secret {
	return &Secret{session: s.session, path: path, field: field}
}

// Secret returns the secret, read from Vault if what was read before counts no more.
func (s *Secret) Secret(ctx context.Context) (string, error) {
	if value, ok := s.fresh(); ok {
		return value, nil
	}
	wait := s.flight.DoChan("", func() (any, error) {
		if value, ok := s.fresh(); ok { // somebody else has just read it
			return value, nil
		}
		ctx, cancel := context.WithTimeout(s.session.ctx, s.session.server.o.Timeout)
		defer cancel()
		return s.read(ctx)
	})
	select {
	case got := <-wait:
		value, _ := got.Val.(string)
		return value, got.Err
	case <-ctx.Done():
		return "", custody.NoCredential(ctx.Err(), "the credential %s was not read from Vault in time", s.path)
	}
}

// fresh returns the secret that is held, if it counts still.
func (s *Secret) fresh() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held
	ok := h.value != "" && !s.old && s.session.server.o.Now().Before(h.until) && (h.token == "" || h.token == s.session.client.Token())
	return h.value, ok
}

// Refused has the secret read again before its next use, after an upstream has answered 401 to it: it may have been replaced. One that
// has only just been read is not at fault.
func (s *Secret) Refused(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := max(s.pause, refusedPause)
	if !s.old && value == s.held.value && s.session.server.o.Now().Sub(s.held.read) >= pause {
		s.old, s.pause = true, min(2*pause, MaxHeld)
	}
}

func (s *Secret) read(ctx context.Context) (string, error) {
	now := s.session.server.o.Now() // what is read is no older than the question
	var secret *api.Secret
	var token string
	err := s.session.call(ctx, func(ctx context.Context, c *api.Client) (err error) {
		token = c.Token()
		secret, err = c.Logical().ReadWithContext(ctx, s.path)
		return err
	})
	if answer := (*api.ResponseError)(nil); errors.As(err, &answer) && answer.StatusCode == http.StatusForbidden && !invalidToken(err) {
		return "", custody.NoCredential(err, "Vault denies the role of API credentials to read %s (403): add it to the role's policy", s.path)
	}
	if err != nil {
		return "", custody.NoCredential(err, "the credential %s cannot be read: %s", s.path, why(err))
	}
	value, err := s.value(secret)
	if err != nil {
		return "", err
	}
	h := held{value: value, read: now, until: now.Add(MaxHeld)}
	if secret.LeaseID != "" {
		h.until, h.token = now.Add(time.Duration(secret.LeaseDuration)*time.Second*9/10), token
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.old {
		s.pause = 0
	}
	s.held, s.old = h, false
	return value, nil
}

// value takes the field out of Vault's answer. Version 2 of the KV engine puts the secret below data, beside metadata.
func (s *Secret) value(secret *api.Secret) (string, error) {
	if secret == nil {
		return "", custody.NoCredential(nil, "Vault has nothing at %s (a path in version 2 of the KV engine has data/ after the mount)", s.path)
	}
	data := secret.Data
	if _, ok := data["metadata"].(map[string]any); ok {
		data, _ = data["data"].(map[string]any)
	}
	value, _ := data[s.field].(string)
	switch {
	case value == "":
		return "", custody.NoCredential(nil, "what Vault has at %s has no field %s that is a text", s.path, s.field)
	case len(value) > maxFile || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", custody.NoCredential(nil, "the field %s of %s in Vault is longer than %d bytes, or holds a line end or another control character", s.field, s.path, maxFile)
	}
	return value, nil
}

// String names the secret, and does not tell it.
func (s *Secret) String() string { return fmt.Sprintf("the field %s of %s in Vault", s.field, s.path) }

// Format prints String, whatever the verb.
func (s *Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }
