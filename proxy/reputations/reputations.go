// Package reputations caches the agent's reputation token, which the node signs. The control plane verifies it.
package reputations

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
)

// Options configure a [Cache]. Only Accepts and Metrics are optional.
type Options struct {
	// Ask asks the node for a token of the sidecar's agent.
	Ask func(ctx context.Context) (token string, err error)
	// Accepts reports whether a key version is still trusted; its tokens have ended otherwise. Nil trusts every version.
	Accepts func(kid string) bool
	Now     func() time.Time
	Log     *zap.Logger
	Metrics prometheus.Registerer
}

const (
	// maxWait bounds how long a post waits for a token if it has none.
	maxWait = 250 * time.Millisecond
	// timeout bounds one request to the node.
	timeout = 5 * time.Second
	// pause is the time between requests to the node.
	pause = 2 * time.Second
	// margin is the last time of a token in which posts do not send it: the control plane judges it a moment later.
	margin = 5 * time.Second
)

// Cache keeps the last token, and renews it before it ends. Posts wait only without one. It may be used concurrently.
type Cache struct {
	o       Options
	life    context.Context // ends with Close
	stop    context.CancelFunc
	wait    sync.WaitGroup // running requests
	metrics *metrics

	mu          sync.Mutex // guards all below
	token, kid  string     // kid is the key version that signed token
	issued, end time.Time
	asking      chan struct{} // closed when the current request ends; nil if there is none
	notBefore   time.Time     // earliest time of the next request
	failed      error         // why the last request failed, or nil
	forgotten   bool          // the node may have a newer opinion than the token
}

// New makes an empty cache. Close it.
func New(o Options) *Cache {
	c := &Cache{o: o, metrics: newMetrics(o.Metrics)}
	c.life, c.stop = context.WithCancel(context.Background())
	return c
}

// Close cancels the running requests and waits for them.
func (c *Cache) Close() {
	c.stop()
	c.wait.Wait()
}

// Forget says that the agent's reputation may have changed. The next post waits for a new token. If none comes, it gets
// the old one while that is valid: an agent must not be able to make its reputation unknown.
func (c *Cache) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgotten, c.asking = true, nil // the answer to a running request is too old
	if c.failed == nil {              // an absent node must not be asked more often
		c.notBefore = time.Time{}
	}
}

// Token returns a token that is at most maxAge old, or "" if there is none.
func (c *Cache) Token(ctx context.Context, maxAge time.Duration) string {
	s := c.State(ctx, maxAge)
	if s.Token == "" {
		c.metrics.missing.Inc()
		return ""
	}
	c.metrics.sent.Inc()
	c.metrics.signed.Set(float64(s.Issued.Unix()))
	return s.Token
}

// State is what the cache knows of the agent's reputation.
type State struct {
	Token  string    // as a post would have it now; empty if there is none
	Issued time.Time // of the last token; zero if there was none
	Until  time.Time // when posts stop sending the token
	Failed error     // why the last request to the node failed, or nil
}

// State looks for a token as [Cache.Token] does, but counts no post.
func (c *Cache) State(ctx context.Context, maxAge time.Duration) State {
	s, asking := c.look(maxAge)
	if asking == nil {
		return s
	}
	bounded, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	select {
	case <-asking:
	case <-bounded.Done():
	}
	s, _ = c.look(maxAge)
	return s
}

// look returns what is known and, if the caller should wait, the running request. It starts a request when it is time.
func (c *Cache) look(maxAge time.Duration) (s State, asking <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.issued.Add(maxAge)
	if c.end.Before(end) {
		end = c.end
	}
	s = State{Issued: c.issued, Until: end.Add(-margin), Failed: c.failed}
	now := c.o.Now()
	believed := c.token == "" || c.o.Accepts == nil || c.o.Accepts(c.kid)
	if now.Before(s.Until) && believed {
		s.Token = c.token
	}
	half := c.issued.Add(s.Until.Sub(c.issued) / 2)
	if (c.forgotten || !believed || !now.Before(half)) && c.asking == nil && !now.Before(c.notBefore) &&
		c.life.Err() == nil {
		asked := make(chan struct{})
		c.asking = asked
		c.wait.Go(func() { c.ask(asked) })
	}
	if s.Token != "" && !c.forgotten {
		return s, nil
	}
	return s, c.asking
}

func (c *Cache) ask(asked chan struct{}) {
	ctx, cancel := context.WithTimeout(c.life, timeout)
	defer cancel()
	token, err := c.o.Ask(ctx)
	var claims accrual.Claims
	if err == nil {
		claims, err = evidence.UnverifiedClaims(accrual.Kind, token)
	}
	if err == nil && time.Unix(claims.IssuedAt, 0).After(c.o.Now().Add(evidence.MaxSkew)) {
		err = refusal.New("clock_skew", "the time at which the reputation was signed is in the future")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(asked)
	if c.asking != asked { // forgotten meanwhile
		return
	}
	c.asking = nil
	// Also after a success: a token that ends at once must not cause a request for each post.
	c.notBefore = c.o.Now().Add(pause)
	failedBefore := c.failed != nil
	if c.failed = err; err != nil {
		c.metrics.failed.Inc()
		if !failedBefore {
			c.o.Log.Warn("the node gives no reputation; posts are decided without it once the last one has ended",
				zap.Error(err))
		}
		return
	}
	c.metrics.fetched.Inc()
	if failedBefore {
		c.o.Log.Info("the node gives reputations again")
	}
	c.token, c.kid, c.forgotten = token, evidence.KeyIDOf(token), false
	c.issued, c.end = time.Unix(claims.IssuedAt, 0), time.Unix(claims.Expires, 0)
}

type metrics struct {
	fetched, failed, sent, missing prometheus.Counter
	signed                         prometheus.Gauge
}

// newMetrics registers nothing if r is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	with := promauto.With(r)
	questions := with.NewCounterVec(prometheus.CounterOpts{
		Name: "mediator_reputation_questions_total",
		Help: "Questions to the node for the reputation of an agent, by result: fetched or failed.",
	}, []string{"result"})
	posts := with.NewCounterVec(prometheus.CounterOpts{
		Name: "mediator_reputation_posts_total",
		Help: "Posts of agents whose reputation the policy may ask for, by whether there was one: sent or missing.",
	}, []string{"reputation"})
	return &metrics{
		fetched: questions.WithLabelValues("fetched"), failed: questions.WithLabelValues("failed"),
		sent: posts.WithLabelValues("sent"), missing: posts.WithLabelValues("missing"),
		signed: with.NewGauge(prometheus.GaugeOpts{
			Name: "mediator_reputation_signed_seconds",
			Help: "When the reputation of the last post that had one was signed, in Unix seconds; 0 before the first.",
		}),
	}
}
