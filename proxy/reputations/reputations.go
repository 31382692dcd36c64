// Package reputations caches the agents' reputation tokens, which the node signs. The control plane verifies them.
package reputations

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/lru"
	"github.com/actionproof/mediator/reputation/accrual"
)

// Source is the node.
type Source interface {
	// Reputation returns a token of an agent of this sidecar's owner.
	Reputation(ctx context.Context, subject string) (token string, err error)
}

// Options configure a [Cache]. Source, Now and Log are required.
type Options struct {
	Source Source
	// Accepts reports whether the key version kid is still trusted. A token by another version counts as ended. Nil
	// trusts every version.
	Accepts func(kid string) bool
	Now     func() time.Time
	Log     *zap.Logger
}

const (
	// maxAgents bounds the agents in a cache. Each token has at most 16 KiB.
	maxAgents = 256
	// maxWait bounds how long a post waits for a token if it has none.
	maxWait = 250 * time.Millisecond
	// timeout bounds one request to the node.
	timeout = 5 * time.Second
	// pause is the time between requests to the node for one agent.
	pause = 2 * time.Second
	// margin is the last time of a token in which posts do not send it: the control plane judges it a moment later.
	margin = 5 * time.Second
)

// Cache keeps the last token of each agent, and renews it before it ends. A post waits briefly, and only if it has no
// valid token. It is safe for concurrent use.
type Cache struct {
	o    Options
	life context.Context // ends with Close
	stop context.CancelFunc
	wait sync.WaitGroup // running requests

	mu     sync.Mutex // guards all below, and the agents' fields
	agents *lru.Cache[string, *agent]
	failed bool // the last request failed

	metrics *metrics
}

type agent struct {
	token, kid  string // kid is the key version that signed token
	issued, end time.Time
	asking      chan struct{} // closed when the current request ends; nil if there is none
	notBefore   time.Time     // earliest time of the next request
	failed      error         // why the last request failed, or nil
	// forgotten says that the node may have a newer opinion than the token.
	forgotten bool
}

// New makes an empty cache.
func New(o Options) (*Cache, error) {
	if o.Source == nil || o.Now == nil || o.Log == nil {
		return nil, errors.New("reputations: the cache lacks one of its parts")
	}
	c := &Cache{o: o, agents: lru.New[string, *agent](maxAgents), metrics: newMetrics()}
	c.life, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// Close cancels the running requests and waits for them.
func (c *Cache) Close() {
	c.stop()
	c.wait.Wait()
}

// Forget says that the agent's reputation may have changed. The next post waits for a new token. If none comes, it gets
// the old one while that is valid: an agent must not be able to make its reputation unknown.
func (c *Cache) Forget(subject string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.agents.Get(subject)
	if !ok {
		return
	}
	next := &agent{token: a.token, kid: a.kid, issued: a.issued, end: a.end, failed: a.failed, forgotten: true}
	if a.failed != nil {
		next.notBefore = a.notBefore // an absent node must not be asked more often
	}
	c.agents.Put(subject, next) // the answer to a running request goes to the old entry
}

// Token returns a token that is at most maxAge old, or "" if there is none.
func (c *Cache) Token(ctx context.Context, subject string, maxAge time.Duration) string {
	token := c.wanted(ctx, subject, maxAge)
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.agents.Get(subject); ok && token != "" {
		c.metrics.posts.WithLabelValues("sent").Inc()
		c.metrics.signed.Set(float64(a.issued.Unix()))
	} else {
		c.metrics.posts.WithLabelValues("missing").Inc()
	}
	return token
}

// State is what the cache knows of an agent's reputation.
type State struct {
	Token  string    // as a post would have it now; empty if there is none
	Issued time.Time // of the last token; zero if there was none
	Until  time.Time // when posts stop sending the token
	Failed error     // why the last request to the node failed, or nil
}

// State looks for a token as [Cache.Token] does, but counts no post.
func (c *Cache) State(ctx context.Context, subject string, maxAge time.Duration) State {
	token := c.wanted(ctx, subject, maxAge)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := State{Token: token}
	if a, ok := c.agents.Get(subject); ok {
		s.Issued, s.Until, s.Failed = a.issued, a.until(maxAge), a.failed
	}
	return s
}

// wanted returns a valid token. If there is none, or it was forgotten, it waits briefly for one.
func (c *Cache) wanted(ctx context.Context, subject string, maxAge time.Duration) string {
	token, asking := c.look(subject, maxAge)
	if asking == nil {
		return token
	}
	bound := time.NewTimer(maxWait)
	defer bound.Stop()
	select {
	case <-asking:
	case <-bound.C:
	case <-ctx.Done():
	}
	token, _ = c.look(subject, maxAge)
	return token
}

// look returns the valid token and, if the caller should wait, the running request. It starts a request when it is
// time.
func (c *Cache) look(subject string, maxAge time.Duration) (token string, asking <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.agents.Get(subject)
	if !ok {
		a = new(agent)
		c.agents.Put(subject, a)
	}
	now, end := c.o.Now(), a.until(maxAge)
	believed := a.token == "" || c.o.Accepts == nil || c.o.Accepts(a.kid)
	if now.Before(end) && believed {
		token = a.token
	}
	half := a.issued.Add(end.Sub(a.issued) / 2)
	if (a.forgotten || !believed || !now.Before(half)) && a.asking == nil && !now.Before(a.notBefore) &&
		c.life.Err() == nil {
		a.asking = make(chan struct{})
		c.wait.Go(func() { c.ask(subject, a) })
	}
	if token != "" && !a.forgotten {
		return token, nil
	}
	return token, a.asking
}

func (a *agent) until(maxAge time.Duration) time.Time {
	end := a.issued.Add(maxAge)
	if a.end.Before(end) {
		end = a.end
	}
	return end.Add(-margin)
}

func (c *Cache) ask(subject string, a *agent) {
	ctx, cancel := context.WithTimeout(c.life, timeout)
	defer cancel()
	token, err := c.o.Source.Reputation(ctx, subject)
	var claims accrual.Claims
	if err == nil {
		claims, err = evidence.UnverifiedClaims(accrual.Kind, token)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(a.asking)
	a.asking = nil
	// Also after a success: a token that ends at once must not cause a request for each post.
	a.notBefore = c.o.Now().Add(pause)
	a.failed = err
	failed, outcome := err != nil, "fetched"
	if failed {
		outcome = "failed"
	}
	c.metrics.questions.WithLabelValues(outcome).Inc()
	if failed != c.failed {
		c.failed = failed
		if failed {
			c.o.Log.Warn("the node gives no reputation; posts are decided without it once the last one has ended",
				zap.String("agent", subject), zap.Error(err))
		} else {
			c.o.Log.Info("the node gives reputations again", zap.String("agent", subject))
		}
	}
	if !failed {
		a.token, a.kid, a.forgotten = token, evidence.KeyIDOf(token), false
		a.issued, a.end = time.Unix(claims.IssuedAt, 0), time.Unix(claims.Expires, 0)
	}
}
