package vault

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/vault/api"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/actionproof/mediator/custody"
)

// session keeps one role logged in. It renews the token, and logs in again when it ends.
type session struct {
	server *Server
	auth   Auth
	name   string      // its purpose, for the log
	client *api.Client // holds the token

	good     atomic.Pointer[goodToken]
	reached  atomic.Bool               // the last request succeeded
	answered atomic.Bool               // the last request did, or Vault denied one credential
	denied   atomic.Bool               // the token may not sign; a reading of the key succeeds all the same
	until    atomic.Pointer[time.Time] // the token's end; nil if it has none

	logins, looks singleflight.Group

	mu      sync.Mutex // held while logging in
	given   bool       // from a login, and to be given back
	failed  time.Time  // the last login that failed
	failure error
	pause   time.Duration      // from then to the next login
	stop    context.CancelFunc // ends the renewal

	ctx context.Context // of the server
}

// patientTimeout bounds each request of a login, for which Vault writes to its storage, and the question what a token
// may do, for which Vault reads a hundred paths. It is longer than that of other requests: when a thousand sidecars
// start at once, each request that is broken off has cost Vault its work, and must begin again.
const patientTimeout = 30 * time.Second

// unwrapTimeout bounds the unwrapping of a secret id. Vault unwraps it once: if the request is broken off, the secret
// id is lost, and the process cannot start until another one is delivered.
const unwrapTimeout = 10 * time.Minute

// The pause after a failed login doubles.
const minPause, maxPause = 200 * time.Millisecond, 5 * time.Second

func (s *Server) session(name string, auth Auth) *session {
	e := &session{server: s, auth: auth, name: name, client: s.client(), stop: func() {}, ctx: s.ctx}
	s.background(func(context.Context) { e.giveBack() })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, e)
	return e
}

// maxAsks bounds the attempts at one request: a token may be revoked, and its successor too.
const maxAsks = 3

func (e *session) read(ctx context.Context, path string) (secret *api.Secret, err error) {
	err = e.call(ctx, func(ctx context.Context, c *api.Client) (err error) {
		secret, err = c.Logical().ReadWithContext(ctx, path)
		return err
	})
	return secret, err
}

func (e *session) write(ctx context.Context, path string, data map[string]any) (secret *api.Secret, err error) {
	err = e.call(ctx, func(ctx context.Context, c *api.Client) (err error) {
		secret, err = c.Logical().WriteWithContext(ctx, path, data)
		return err
	})
	return secret, err
}

// call first logs in if there is no token or Vault does not know it. It asks again after a broken connection, so a
// request may arrive twice.
func (e *session) call(ctx context.Context, ask func(context.Context, *api.Client) error) (err error) {
	defer func() { e.reached.Store(err == nil); e.answered.Store(err == nil) }()
	token := e.client.Token()
	for range maxAsks {
		if token == "" || invalidToken(err) {
			if err = e.login(ctx, token); err != nil {
				return err
			}
			token = e.client.Token()
		}
		if err = ask(ctx, e.client); !invalidToken(err) && !broken(err) {
			return err
		}
	}
	return err
}

// ready refuses a secret id that Vault would not take. It uses none up.
func (e *session) ready(ctx context.Context) error {
	a, ok := e.auth.(*AppRole)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.server.o.Timeout)
	defer cancel()
	var err error
	select {
	case done := <-e.looks.DoChan("ready", func() (any, error) { return nil, a.ready(e.ctx, e.server.client()) }):
		err = done.Err
	case <-ctx.Done(): // the question goes on: when it is broken off, it has cost Vault its work
		err = ctx.Err()
	}
	if err != nil {
		return custody.Unavailable(err, "the login for %s: %s", e.name, why(err))
	}
	return nil
}

// login gets another token than old. All callers share one login, which goes on when a caller leaves.
func (e *session) login(ctx context.Context, old string) error {
	select {
	case done := <-e.logins.DoChan("", func() (any, error) { return nil, e.logIn(old) }):
		return done.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *session) logIn(old string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.ctx.Err(); err != nil {
		return err
	}
	if token := e.client.Token(); token != "" && token != old {
		return nil
	}
	if e.failure != nil && e.server.o.Now().Sub(e.failed) < e.pause {
		return e.failure
	}
	secret, err := e.authenticate(e.ctx, old)
	if err != nil {
		e.failed, e.failure, e.pause = e.server.o.Now(), err, min(max(2*e.pause, minPause), maxPause)
		return err
	}
	e.failure, e.pause = nil, 0
	e.stop()
	e.client.SetToken(secret.Auth.ClientToken)
	e.lease(secret.Auth.LeaseDuration)
	e.renew(secret)
	e.server.o.Log.Info("logged in to Vault", zap.String("for", e.name), zap.Int("lease_s", secret.Auth.LeaseDuration),
		zap.Bool("renewable", secret.Auth.Renewable))
	return nil
}

type loginError struct{ detail string }

func (e loginError) Error() string { return e.detail }

func loginFailed(format string, args ...any) error { return loginError{fmt.Sprintf(format, args...)} }

func (e *session) authenticate(ctx context.Context, old string) (*api.Secret, error) {
	secret, err := e.auth.login(ctx, e.server.client())
	var answer *api.ResponseError
	switch {
	case errors.As(err, &answer) && refuses(answer):
		return nil, loginFailed("Vault refuses the login for %s (%d): check its role and what it logs in with", e.name,
			answer.StatusCode)
	case err != nil:
		return nil, fmt.Errorf("the login for %s: %w", e.name, err)
	case secret == nil || secret.Auth == nil || secret.Auth.ClientToken == "":
		return nil, loginFailed("the login for %s gave no token", e.name)
	case secret.Auth.ClientToken == old: // a file's
		return nil, loginFailed("Vault does not know the token any more, and there is no other one yet")
	}
	return secret, nil
}

// renew renews the token as long as Vault allows, and then logs in before it ends. The caller holds mu.
func (e *session) renew(secret *api.Secret) {
	ctx, cancel := context.WithCancel(e.ctx)
	e.stop = cancel
	e.given = secret.Auth.LeaseDuration > 0
	if !e.given {
		return // a file's token, or one without an end
	}
	watcher, err := e.client.NewLifetimeWatcher(&api.LifetimeWatcherInput{Secret: secret})
	if err != nil {
		e.server.o.Log.Error("the token is not renewed", zap.String("for", e.name), zap.Error(err))
		return
	}
	e.server.background(func(context.Context) {
		select {
		case <-ctx.Done():
			return
		// a watcher renews when it starts
		case <-time.After(time.Duration(secret.Auth.LeaseDuration) * time.Second / 2):
		}
		go watcher.Start()
		defer watcher.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case renewed := <-watcher.RenewCh():
				e.lease(renewed.Secret.Auth.LeaseDuration)
				e.server.o.Log.Debug("token renewed", zap.String("for", e.name))
			case <-watcher.DoneCh(): // with or without an error the token ends soon
				within, cancel := context.WithTimeout(e.ctx, e.server.o.Timeout) // the login ends ctx
				if err := e.login(within, secret.Auth.ClientToken); err != nil {
					e.server.o.Log.Warn("Vault's token ends and there is no other one yet", zap.String("for", e.name),
						zap.String("because", err.Error()))
				}
				cancel()
				return
			}
		}
	})
}

// givesBack reports whether the token is given back at the end.
func (e *session) givesBack() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.given
}

// giveBack revokes the token at the end of the session: it must not outlive the process.
func (e *session) giveBack() {
	<-e.ctx.Done()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop()
	if !e.given || e.client.Token() == "" {
		return
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), time.Second)
	defer cancel()
	if err := e.client.Auth().Token().RevokeSelfWithContext(within, ""); err != nil {
		e.server.o.Log.Debug("the token is not given back; it ends by itself", zap.String("for", e.name))
	}
}
