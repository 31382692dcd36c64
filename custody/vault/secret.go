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

// Secrets are the API credentials that one role may read.
type Secrets struct {
	session *session
	keys    []string
}

// Secrets prepares for reading with auth, which must not be able to use any of keys ([Secrets.Look]).
func (s *Server) Secrets(auth Auth, keys ...string) *Secrets {
	return &Secrets{session: s.session("API credentials", auth), keys: keys}
}

// Look reports the token's rights on keys: there must be none.
func (s *Secrets) Look(ctx context.Context, maxAge time.Duration) look.Observation {
	return s.session.apart(ctx, maxAge, "read them", nil, s.session.forbidden(s.keys))
}

// Secret is one field of a secret. It is safe for concurrent use.
type Secret struct {
	session     *session
	path, field string
	flight      singleflight.Group

	mu    sync.Mutex // guards all below
	held  held
	old   bool          // refused; to be read again
	pause time.Duration // the least time between two readings of a refused secret
}

type held struct {
	value string
	read  time.Time
	until time.Time
	token string // the token of its lease, if Vault revokes both together
}

// MaxHeld bounds the use of a secret without a lease. A lease ends earlier or later by itself.
const MaxHeld = time.Minute

// refusedPause is the first pause. It doubles up to MaxHeld: an agent may find a call that always gets 401, and some
// engines make a new secret for each reading.
const refusedPause = time.Second

// Secret reads a field of the secret at path, as `vault read` takes it: kv/data/github (KV version 2), or
// aws/creds/deploy in an engine that makes secrets.
func (s *Secrets) Secret(path, field string) *Secret {
	return &Secret{session: s.session, path: path, field: field}
}

// Secret returns the secret, which it reads again if necessary.
func (s *Secret) Secret(ctx context.Context) (string, error) {
	if value, ok := s.fresh(); ok {
		return value, nil
	}
	wait := s.flight.DoChan("", func() (any, error) {
		if value, ok := s.fresh(); ok { // another caller has read it
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
		return "", custody.Unavailable(ctx.Err(), "the credential %s was not read from Vault in time", s.path)
	}
}

func (s *Secret) fresh() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held
	ok := h.value != "" && !s.old && s.session.server.o.Now().Before(h.until) &&
		(h.token == "" || h.token == s.session.client.Token())
	return h.value, ok
}

// Refused makes the next use read the secret again, after a 401 from upstream. It ignores a secret that was only just
// read.
func (s *Secret) Refused(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := max(s.pause, refusedPause)
	if !s.old && value == s.held.value && s.session.server.o.Now().Sub(s.held.read) >= pause {
		s.old, s.pause = true, min(2*pause, MaxHeld)
	}
}

func (s *Secret) read(ctx context.Context) (string, error) {
	now := s.session.server.o.Now() // the reading is no older than the question
	var secret *api.Secret
	var token string
	err := s.session.call(ctx, func(ctx context.Context, c *api.Client) (err error) {
		token = c.Token()
		secret, err = c.Logical().ReadWithContext(ctx, s.path)
		return err
	})
	if answer := (*api.ResponseError)(nil); errors.As(err, &answer) && answer.StatusCode == http.StatusForbidden &&
		!invalidToken(err) {
		return "", custody.Unavailable(err,
			"Vault denies the role of API credentials to read %s (403): add it to the role's policy", s.path)
	}
	if err != nil {
		return "", custody.Unavailable(err, "the credential %s cannot be read: %s", s.path, why(err))
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

// value takes the field from Vault's answer. KV version 2 has the secret below data, beside metadata.
func (s *Secret) value(secret *api.Secret) (string, error) {
	if secret == nil {
		return "", custody.Unavailable(nil,
			"Vault has nothing at %s (a path in version 2 of the KV engine has data/ after the mount)", s.path)
	}
	data := secret.Data
	if _, ok := data["metadata"].(map[string]any); ok {
		data, _ = data["data"].(map[string]any)
	}
	value, _ := data[s.field].(string)
	switch {
	case value == "":
		return "", custody.Unavailable(nil, "what Vault has at %s has no field %s that is a text", s.path, s.field)
	case len(value) > maxFile || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", custody.Unavailable(nil, "the field %s of %s in Vault is longer than %d bytes, or holds a line end or "+
			"another control character", s.field, s.path, maxFile)
	}
	return value, nil
}

// String names the secret without revealing it.
func (s *Secret) String() string { return fmt.Sprintf("the field %s of %s in Vault", s.field, s.path) }

// Format prints String.
func (s *Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }
