package vault

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/vault/api"
	"go.uber.org/zap"
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

// Rest forgets a failure of the login. Call it when the configuration has no credential in Vault: no later request
// would correct that failure.
func (s *Secrets) Rest() { s.session.reached.Store(true) }

// Look reports the token's rights on keys: there must be none.
func (s *Secrets) Look(ctx context.Context, maxAge time.Duration) look.Observation {
	return s.session.apart(ctx, maxAge, "read them", nil, s.session.forbidden(s.keys))
}

// SignRS256 signs a message (RFC 7518 section 3.3) with an RSA key of the Transit engine: a credential for an API, not
// one of the deployment's signing keys.
func (s *Secrets) SignRS256(ctx context.Context, key string, message []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.session.server.o.Timeout)
	defer cancel()
	path := s.session.server.o.Mount + "/sign/" + key + "/sha2-256"
	answer, err := s.session.write(ctx, path, map[string]any{
		"input": base64.StdEncoding.EncodeToString(message), "signature_algorithm": "pkcs1v15"})
	if err != nil {
		return nil, s.session.explain(err, "sign at "+path)
	}
	var signed struct{ Signature string }
	if err := decode(answer, &signed); err != nil {
		return nil, custody.Unavailable(err, "Vault's signature by the key %s cannot be read", key)
	}
	_, text, _ := strings.Cut(strings.TrimPrefix(signed.Signature, "vault:"), ":")
	signature, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(signature) < leastRSA {
		return nil, custody.Unavailable(err, "the key %s in Vault is not an RSA key of at least 2048 bits", key)
	}
	return signature, nil
}

// leastRSA is the length of a signature by a key of 2048 bits, in bytes.
const leastRSA = 256

// explain returns the error of a failed request for a credential. That Vault denies one says nothing about the others,
// so the login counts as answered.
func (e *session) explain(err error, what string) error {
	if isDenied(err) {
		e.answered.Store(true)
		return custody.Unavailable(err,
			"Vault denies the role of API credentials to %s (403): add it to the role's policy", what)
	}
	return custody.Unavailable(err, "the role of API credentials cannot %s: %s", what, why(err))
}

// Secret is a secret at one path. It is safe for concurrent use.
type Secret struct {
	session *session
	path    string
	version int // in version 2 of the KV engine; the latest if 0
	flight  singleflight.Group
	leases  sync.Once // the first lease, to be given back at the end

	mu     sync.Mutex // guards all below
	held   held
	old    bool          // refused; to be read again
	pause  time.Duration // the least time between two readings of a refused secret
	failed time.Time     // the last time that one could not be read again
}

// Reading is a secret as it was read.
type Reading struct {
	Version string    // in version 2 of the KV engine; empty in others
	Read    time.Time // time of the request to Vault
	End     time.Time // of its lease; zero without one
	path    string
	fields  map[string]any
}

type held struct {
	Reading
	until time.Time
	lease lease
}

// lease is zero for a secret without one.
type lease struct {
	id        string
	length    time.Duration
	renewable bool
	token     string // Vault revokes it together with this token
}

// MaxHeld bounds the use of a secret without a lease. A lease ends earlier or later by itself.
const MaxHeld = time.Minute

// refusedPause is the first pause. It doubles up to MaxHeld: an agent may find a call that always gets 401, and some
// engines make a new secret for each reading.
const refusedPause = time.Second

// Secret reads the secret at path, as `vault read` takes it: kv/data/github (KV version 2), or database/creds/reports
// in an engine that makes secrets. Version 2 of the KV engine keeps several versions; 0 means the latest.
func (s *Secrets) Secret(path string, version int) *Secret {
	return &Secret{session: s.session, path: path, version: version}
}

// Leased reports whether the secret has a lease, which its next use renews: another Secret would have another one.
func (s *Secret) Leased() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held.lease.id != ""
}

// Read returns the secret. If necessary it renews the lease, or asks Vault for the secret again.
func (s *Secret) Read(ctx context.Context) (Reading, error) {
	if got, ok := s.fresh(); ok {
		return got, nil
	}
	wait := s.flight.DoChan("", func() (any, error) {
		if got, ok := s.fresh(); ok { // another caller has read it
			return got, nil
		}
		ctx, cancel := context.WithTimeout(s.session.ctx, s.session.server.o.Timeout)
		defer cancel()
		return s.read(ctx)
	})
	select {
	case got := <-wait:
		reading, _ := got.Val.(Reading)
		return reading, got.Err
	case <-ctx.Done():
		return Reading{}, custody.Unavailable(ctx.Err(), "the credential %s was not read from Vault in time", s.path)
	}
}

func (s *Secret) fresh() (Reading, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held.Reading, !s.old && s.lasts(s.held.until)
}

// lasts reports whether the secret may be used until that time, and now. The caller holds s.mu.
func (s *Secret) lasts(until time.Time) bool {
	h := s.held
	return h.fields != nil && s.session.server.o.Now().Before(until) &&
		(h.lease.id == "" || h.lease.token == s.session.client.Token())
}

// Refused makes the next use read the secret again, after an upstream answered 401 to a field's value. It ignores a
// secret that was only just read.
func (s *Secret) Refused(field, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause, since := max(s.pause, refusedPause), s.held.Read
	if s.failed.After(since) {
		since = s.failed
	}
	if !s.old && value == s.held.fields[field] && s.session.server.o.Now().Sub(since) >= pause {
		s.old, s.pause = true, min(2*pause, MaxHeld)
	}
}

func (s *Secret) read(ctx context.Context) (Reading, error) {
	h, renewed := s.renew(ctx)
	if !renewed {
		var err error
		if h, err = s.ask(ctx); err != nil {
			return s.still(err)
		}
	}
	if h.lease.id != "" {
		s.leases.Do(func() { s.session.server.background(s.giveBack) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.held.lease.id
	if !s.old {
		s.pause = 0
	} else if id != "" && !renewed {
		s.session.server.background(func(ctx context.Context) { s.giveBackRefused(ctx, id) })
	}
	s.held, s.old = h, s.old && renewed // one refused while its lease was renewed is still to be read again
	return h.Reading, nil
}

// still returns a secret that could not be read again, until its lease ends. It returns a refused one too: the refusal
// may be of one call, and others use it too.
func (s *Secret) still(err error) (Reading, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.old, s.failed = false, s.session.server.o.Now()
	if s.lasts(cmp.Or(s.held.End, s.held.until)) {
		return s.held.Reading, nil
	}
	return Reading{}, err
}

// renew extends the lease of the secret, unless an upstream has refused the secret. It fails near the longest life that
// the engine allows, and if Vault has revoked the lease or denies its renewal.
func (s *Secret) renew(ctx context.Context) (held, bool) {
	now := s.session.server.o.Now()
	s.mu.Lock()
	h, old := s.held, s.old
	s.mu.Unlock()
	if old || !h.lease.renewable || h.lease.token != s.session.client.Token() || !now.Before(h.End) {
		return held{}, false
	}
	renewed, err := s.session.write(ctx, "sys/leases/renew/"+h.lease.id,
		map[string]any{"increment": int(h.lease.length.Seconds())})
	if err != nil {
		s.session.server.o.Log.Warn("a credential's lease is not renewed; a new secret replaces it",
			zap.String("path", s.path), zap.String("because", why(err)))
	}
	if err != nil || renewed == nil || seconds(renewed) < h.lease.length/2 {
		return held{}, false
	}
	h.Read = now
	h.last(seconds(renewed))
	return h, true
}

func seconds(s *api.Secret) time.Duration { return time.Duration(s.LeaseDuration) * time.Second }

// last sets the end of a lease that Vault has given or renewed when it was read.
func (h *held) last(length time.Duration) {
	h.End, h.until = h.Read.Add(length), h.Read.Add(length*9/10)
}

func (s *Secret) ask(ctx context.Context) (held, error) {
	now := s.session.server.o.Now() // the reading is no older than the question
	var secret *api.Secret
	var token string
	var params map[string][]string
	if s.version > 0 {
		params = map[string][]string{"version": {strconv.Itoa(s.version)}}
	}
	err := s.session.call(ctx, func(ctx context.Context, c *api.Client) (err error) {
		token = c.Token()
		secret, err = c.Logical().ReadWithDataWithContext(ctx, s.path, params)
		return err
	})
	if err != nil {
		return held{}, s.session.explain(err, "read "+s.path)
	}
	if secret == nil {
		return held{}, custody.Unavailable(nil,
			"Vault has nothing at %s (a path in version 2 of the KV engine has data/ after the mount)", s.path)
	}
	h := held{Reading: Reading{Read: now, path: s.path, fields: secret.Data}, until: now.Add(MaxHeld)}
	if about, ok := secret.Data["metadata"].(map[string]any); ok { // version 2 of the KV engine
		h.fields, _ = secret.Data["data"].(map[string]any)
		h.Version = fmt.Sprint(about["version"])
	}
	if s.version > 0 && h.Version != strconv.Itoa(s.version) {
		return held{}, custody.Unavailable(nil, "Vault has no version %d of %s", s.version, s.path)
	}
	if secret.LeaseID != "" {
		h.lease = lease{secret.LeaseID, seconds(secret), secret.Renewable, token}
		h.last(h.lease.length)
	}
	return h, nil
}

// giveBackRefused revokes the lease of a refused secret, after the time in which calls on their way still send it: an
// agent that finds a call which always gets 401 must not have Vault make more and more users of a database.
func (s *Secret) giveBackRefused(ctx context.Context, id string) {
	select {
	case <-ctx.Done():
	case <-time.After(MaxHeld):
	}
	s.revoke(ctx, id)
}

// giveBack revokes the lease at the end.
func (s *Secret) giveBack(ctx context.Context) {
	<-ctx.Done()
	s.mu.Lock()
	id := s.held.lease.id
	s.mu.Unlock()
	s.revoke(ctx, id)
}

// revoke does nothing at the end of a session that gives back its token, and with it all leases.
func (s *Secret) revoke(ctx context.Context, id string) {
	if id == "" || ctx.Err() != nil && s.session.givesBack() {
		return
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, err := s.session.client.Logical().WriteWithContext(within, "sys/leases/revoke/"+id,
		map[string]any{"sync": false}) // the database may take longer
	if err != nil {
		s.session.server.o.Log.Warn("a credential's lease is not given back; it ends by itself",
			zap.String("path", s.path), zap.String("because", why(err)))
	}
}

// Field returns the text in a field.
func (r Reading) Field(name string) (string, error) {
	value, _ := r.fields[name].(string)
	switch {
	case value == "":
		return "", custody.Unavailable(nil, "what Vault has at %s has no field %s that is a text", r.path, name)
	case len(value) > maxFile || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", custody.Unavailable(nil,
			"the field %s of %s in Vault is longer than %d bytes, or holds a line end or "+
				"another control character", name, r.path, maxFile)
	}
	return value, nil
}

// Has reports whether the secret has a field that is not null.
func (r Reading) Has(name string) bool { return r.fields[name] != nil }

// String names the secret without revealing it.
func (s *Secret) String() string { return s.path + " in Vault" }

// Format keeps a reading out of logs and errors.
func (Reading) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("REDACTED")) }

// Format prints String.
func (s *Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }
