package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/keystore"
	"github.com/actionproof/mediator/internal/refusal"
)

// A Check returns why the callers of this process would be refused now, and nil if they would not.
type Check func(context.Context) error

const (
	probeAge     = 500 * time.Millisecond // of a result that is repeated
	probeTimeout = 3 * time.Second
)

// probe makes its checks only for callers. Concurrent callers share one round of checks.
type probe struct {
	checks []Check

	mu  sync.Mutex // guards all below; held during the checks
	at  time.Time
	err error
}

func (p *probe) ask(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) < probeAge {
		return p.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	p.err = nil
	for _, check := range p.checks {
		if err := check(ctx); err != nil {
			p.err = refusal.New("not_ready", "callers are refused now: %w%s", err, CodeOf(err))
			break
		}
	}
	p.at = time.Now()
	return p.err
}

// identified checks that peers accept the process's TLS certificate.
func (p *Process) identified(context.Context) error {
	if p.Identity == nil {
		return nil
	}
	return p.Identity.Check()
}

// signs checks that each role has a key version that signs, and that Vault, where it holds the keys, answers. A role
// goes on to sign with a version that the newest bundle has lost or revoked, and others refuse it. Vault is asked only
// if the last request to it failed, and what a key's token may do at most once a minute: many probes of a busy Vault's
// processes must not make it busier.
func (p *Process) signs(ctx context.Context) error {
	if err := p.uncertified.Load(); err != nil {
		return *err
	}
	for _, r := range p.Roles {
		if _, err := r.Key.Signs(ctx); err != nil {
			return err
		}
	}
	if p.vaultAway() == "" {
		return nil
	}
	p.Observer.Load().Observe(ctx, time.Minute) // every login makes a request, also that for credentials
	if login := p.vaultAway(); login != "" {
		return errors.New("Vault fails the requests of the " + login)
	}
	return nil
}

// vaultAway returns the first login whose last request to Vault failed, unless Vault only denied one credential.
func (p *Process) vaultAway() string {
	health, _ := keystore.Health(p.Keys)
	for _, l := range health.Logins {
		if !l.Answered {
			return l.For
		}
	}
	return ""
}

// judges checks that the current trust is within its times: otherwise it believes no artifact.
func (p *Process) judges(context.Context) error {
	trust := p.Trust.current()
	if trust == nil {
		return nil
	}
	now := time.Now()
	if until, ok := trust.Verifier.Trust().RevocationsUntil(); ok && now.After(until) {
		return errors.New("the revocation list expired at " + until.UTC().Format(time.RFC3339))
	}
	if until := time.Unix(trust.until.Load(), 0); now.After(until) {
		return errors.New("the deployment certificate expired at " + until.UTC().Format(time.RFC3339))
	}
	return nil
}
