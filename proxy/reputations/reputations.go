// Package reputations has the reputation tokens of the agents that post, as the node has signed them. It verifies none:
// the control plane does.
package reputations

import (
	"cmp"
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
	// Reputation returns a reputation token of an agent of this sidecar's owner, by its subject.
	Reputation(ctx context.Context, subject string) (token string, err error)
}

// Options configure a [Cache]. Source, Now and Log are required.
type Options struct {
	Source Source
	// Accepts reports whether a token by the key version kid is still believed. Where it is not, the token counts as
	// ended. Nil believes every one.
	Accepts func(kid string) bool
	// Wait is how long a post waits for a token, where none is known that is still good; default 250 ms.
	Wait time.Duration
	// Timeout bounds one question to the node, for which nobody may be waiting any more; default 5 s.
	Timeout time.Duration
	// Pause is how long after a question that failed no other is asked, and no post waits; default 2 s.
	Pause time.Duration
	Now   func() time.Time
	Log   *zap.Logger
}

const (
	// maxAgents is how many agents a cache knows. Each has a token of 16 KiB at most.
	maxAgents = 256
	// margin is how long before its end a token is not sent any more: it is judged a moment later, elsewhere.
	margin = 5 * time.Second
)

// Cache has the last token of each agent, and asks the node for the next one before that ends. A post waits only while
// there is no token that is good, and never long. It is safe for concurrent use.
type Cache struct {
	o    Options
	life context.Context // ends with Close
	stop context.CancelFunc
	wait sync.WaitGroup // for questions

	mu     sync.Mutex // guards all below, and what the agents hold
	agents *lru.Cache[string, *agent]
	failed bool // the last question

	metrics *metrics
}

// agent is what is known of one agent.
type agent struct {
	token, kid  string // kid is the key version that has signed token
	issued, end time.Time
	asking      chan struct{} // closed when the question that is asked now is over; nil while there is none
	notBefore   time.Time     // of the next question
	failed      error         // why the last question failed; nil if it did not
	// forgotten says that the node may say something else by now than the token does.
	forgotten bool
}

// New makes an empty cache.
func New(o Options) (*Cache, error) {
	if o.Source == nil || o.Now == nil || o.Log == nil {
		return nil, errors.New("reputations: the cache lacks one of its parts")
	}
	o.Wait, o.Timeout, o.Pause = cmp.Or(o.Wait, 250*time.Millisecond), cmp.Or(o.Timeout, 5*time.Second),
		cmp.Or(o.Pause, 2*time.Second)
	c := &Cache{o: o, agents: lru.New[string, *agent](maxAgents), metrics: newMetrics()}
	c.life, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// Close ends the questions that are asked, and waits for them.
func (c *Cache) Close() {
	c.stop()
	c.wait.Wait()
}

// Forget says that the node may say something else of an agent now. The next post waits for a new token. Where none
// comes it has the last one, as long as that is good: an agent cannot bring it about that its reputation is not known.
func (c *Cache) Forget(subject string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.agents.Get(subject)
	if !ok {
		return
	}
	next := &agent{token: a.token, kid: a.kid, issued: a.issued, end: a.end, failed: a.failed, forgotten: true}
	if a.failed != nil {
		next.notBefore = a.notBefore // who is away is asked no more often for it
	}
	c.agents.Put(subject, next) // the answer to a question that is being asked goes to the agent that was there
}

// Token returns a token of the agent that posts which is no older than maxAge, or nothing where there is none.
func (c *Cache) Token(ctx context.Context, subject string, maxAge time.Duration) string {
	token := c.wanted(ctx, subject, maxAge)
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.agents.Get(subject); ok && token != "" {
		c.metrics.sent(a.issued)
	} else {
		c.metrics.missing()
	}
	return token
}

// State is what is known of the reputation of one agent.
type State struct {
	Token  string    // as a post would have it now; empty where there is none
	Issued time.Time // when the last token was signed that the node has given; zero where it has given none
	Until  time.Time // until when posts have that token
	Failed error     // why the last question to the node failed; nil if it did not
}

// State looks for a token of an agent as [Cache.Token] does, for somebody who does not post.
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

// wanted returns a token that is good. Where there is none, or one that was forgotten, it waits for one, but not for
// long.
func (c *Cache) wanted(ctx context.Context, subject string, maxAge time.Duration) string {
	token, asking := c.look(subject, maxAge)
	if asking == nil {
		return token
	}
	bound := time.NewTimer(c.o.Wait)
	defer bound.Stop()
	select {
	case <-asking:
	case <-bound.C:
	case <-ctx.Done():
	}
	token, _ = c.look(subject, maxAge)
	return token
}

// look returns the token that is good, and the question whose answer is worth waiting for. It asks one where it is time
// to.
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

// until returns until when the last token is sent.
func (a *agent) until(maxAge time.Duration) time.Time {
	end := a.issued.Add(maxAge)
	if a.end.Before(end) {
		end = a.end
	}
	return end.Add(-margin)
}

// ask asks the node for a token of the agent, and keeps it.
func (c *Cache) ask(subject string, a *agent) {
	ctx, cancel := context.WithTimeout(c.life, c.o.Timeout)
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
	// Also after a success: a token that ends at once must not make a question of each post.
	a.notBefore = c.o.Now().Add(c.o.Pause)
	a.failed = err
	c.metrics.asked(err)
	if failed := err != nil; failed != c.failed {
		c.failed = failed
		if failed {
			c.o.Log.Warn("the node gives no reputation; posts are decided without it once the last one has ended",
				zap.String("agent", subject), zap.Error(err))
		} else {
			c.o.Log.Info("the node gives reputations again", zap.String("agent", subject))
		}
	}
	if err == nil {
		a.token, a.kid, a.forgotten = token, evidence.KeyIDOf(token), false
		a.issued, a.end = time.Unix(claims.IssuedAt, 0), time.Unix(claims.Expires, 0)
	}
}
