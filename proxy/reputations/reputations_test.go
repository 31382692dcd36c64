package reputations_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/proxy/reputations"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// node signs reputations by the bubble's clock.
type node struct {
	t        testing.TB
	kit      *gatetest.Kit
	lifetime time.Duration
	ahead    time.Duration // of the right time
	metrics  *prometheus.Registry

	mu    sync.Mutex
	asked int
	takes time.Duration
	fails error
	gives string // instead of a token
}

func newNode(t testing.TB) *node {
	k := gatetest.NewAt(t, time.Now(), gatetest.Autonomous)
	k.Appraise(t)
	return &node{t: t, kit: k, lifetime: accrual.Lifetime, metrics: prometheus.NewPedanticRegistry()}
}

func (n *node) Reputation(ctx context.Context) (string, error) {
	n.mu.Lock()
	n.asked++
	takes, fails, gives := n.takes, n.fails, n.gives
	n.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if fails != nil || gives != "" {
		return gives, fails
	}
	c := n.kit.ReputationOf(n.t, accrual.Agent{Owner: n.kit.Owner(n.t), Subject: agent}, 3, 50)
	accrual.Kind.Stamp(&c, evidence.NewRegistered("mediator-appraiser", "posting-api", time.Now().Add(n.ahead),
		n.lifetime),
		evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator})
	return evidence.Sign(ctx, n.kit.Key(n.t, evidence.PurposeAppraiser), accrual.Kind, c)
}

func (n *node) set(takes time.Duration, fails error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.takes, n.fails = takes, fails
}

func (n *node) questions() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

const agent, age = "agent:worker-1", 10 * time.Minute

// bubble runs a test with its own clock.
func bubble(t *testing.T, test func(t *testing.T, n *node, c *reputations.Cache)) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		c := reputations.New(reputations.Options{Ask: n.Reputation, Now: time.Now, Log: zap.NewNop(), Metrics: n.metrics})
		defer c.Close()
		test(t, n, c)
	})
}

func took(c *reputations.Cache, ctx context.Context) (string, time.Duration) {
	began := time.Now()
	token := c.Token(ctx, age)
	return token, time.Since(began)
}

func TestOneTokenForManyPosts(t *testing.T) {
	bubble(t, func(t *testing.T, n *node, c *reputations.Cache) {
		n.set(100*time.Millisecond, nil)
		first, waited := took(c, t.Context())
		check.WantEqual(t, waited, 100*time.Millisecond)
		for range 10 {
			token, waited := took(c, t.Context())
			if token != first || first == "" || waited != 0 {
				t.Fatalf("%.20q after %.20q, %s", token, first, waited)
			}
		}
		check.WantEqual(t, n.questions(), 1)
	})
}

// TestForget checks that the next post has a newer token, also while a request is running.
func TestForget(t *testing.T) {
	bubble(t, func(t *testing.T, n *node, c *reputations.Cache) {
		n.set(100*time.Millisecond, nil)
		first, _ := took(c, t.Context())
		c.Forget()
		time.Sleep(time.Second)
		second, waited := took(c, t.Context())
		if second == first || second == "" || waited != 100*time.Millisecond {
			t.Errorf("%.20q after %.20q, %v", second, first, waited)
		}
		c.Forget()
		n.set(time.Second, nil)
		go c.Token(t.Context(), age)
		time.Sleep(50 * time.Millisecond)
		c.Forget() // while the node is asked
		n.set(0, nil)
		third, _ := took(c, t.Context())
		time.Sleep(2 * time.Second)
		if last, _ := took(c, t.Context()); last != third || third == "" {
			t.Errorf("%.20q after %.20q", last, third)
		}
	})
}

// TestForgetWhileTheNodeIsAway checks that the agent keeps its old token, and that the node is not asked more often.
func TestForgetWhileTheNodeIsAway(t *testing.T) {
	for name, away := range map[string]struct {
		after time.Duration
		err   error
	}{"it fails": {0, errors.New("away")}, "it is slow": {time.Second, nil}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node, c *reputations.Cache) {
				first, _ := took(c, t.Context())
				n.set(away.after, away.err)
				c.Forget()
				if token, waited := took(c, t.Context()); token != first || waited > 250*time.Millisecond {
					t.Errorf("%.20q after %.20q, %v", token, first, waited)
				}
			})
		})
	}
	bubble(t, func(t *testing.T, n *node, c *reputations.Cache) {
		c.Forget() // it is unknown yet
		first, _ := took(c, t.Context())
		n.set(0, errors.New("away"))
		before := n.questions()
		for range 10 {
			c.Forget()
			if token, waited := took(c, t.Context()); token != first || waited != 0 {
				t.Errorf("%.20q, %v", token, waited)
			}
		}
		if asked := n.questions() - before; asked != 1 {
			t.Errorf("the node was asked %d times", asked)
		}
		time.Sleep(10 * time.Minute)
		c.Forget()
		if token, _ := took(c, t.Context()); token != "" {
			t.Errorf("%.20q is over", token)
		}
	})
}

func TestNextTokenBeforeTheLastEnds(t *testing.T) {
	bubble(t, func(t *testing.T, n *node, c *reputations.Cache) {
		n.set(time.Second, nil)
		n.lifetime = 5 * time.Minute
		time.Sleep(time.Second)
		c.Token(t.Context(), age) // starts a request without waiting
		time.Sleep(2 * time.Second)
		seen := map[string]bool{}
		for range 60 * 60 {
			token, waited := took(c, t.Context())
			claims, err := evidence.UnverifiedClaims(accrual.Kind, token)
			if err != nil || waited != 0 || time.Until(time.Unix(claims.Expires, 0)) < 5*time.Second {
				t.Fatalf("%s waited, %v, ends in %s", waited, err, time.Until(time.Unix(claims.Expires, 0)))
			}
			seen[token] = true
			time.Sleep(time.Second)
		}
		if len(seen) < 60/5 || len(seen) > 2*60/5+2 {
			t.Errorf("%d tokens in an hour", len(seen))
		}
	})
}

func TestNodeIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, n *node, c *reputations.Cache) {
		n.set(time.Hour, nil) // it does not answer
		token, waited := took(c, t.Context())
		if token != "" || waited != 250*time.Millisecond {
			t.Fatalf("%q after %s", token, waited)
		}
		time.Sleep(8 * time.Second) // until the request has timed out and the pause is over
		n.set(0, errors.New("away"))
		took(c, t.Context())
		for range 10 {
			if token, waited := took(c, t.Context()); token != "" || waited != 0 {
				t.Fatalf("%q after %s", token, waited)
			}
		}
		check.WantEqual(t, n.questions(), 2)
		n.set(0, nil)
		time.Sleep(3 * time.Second)
		if token, _ := took(c, t.Context()); token == "" {
			t.Error("no token once the node is back")
		}
	})
}

func TestTokenEndsWhileTheNodeIsAway(t *testing.T) {
	for name, c := range map[string]struct{ age, until time.Duration }{
		"its end":                            {age, accrual.Lifetime - 5*time.Second},
		"the age that the manifest believes": {time.Minute, 55 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node, cache *reputations.Cache) {
				began := time.Now()
				if cache.Token(t.Context(), c.age) == "" {
					t.Fatal("no token")
				}
				n.set(0, errors.New("away"))
				for time.Since(began) < c.until {
					if cache.Token(t.Context(), c.age) == "" {
						t.Fatalf("none after %s", time.Since(began))
					}
					time.Sleep(time.Second)
				}
				if token := cache.Token(t.Context(), c.age); token != "" {
					t.Errorf("one after %s", time.Since(began))
				}
			})
		})
	}
}

func TestManyPostsAskOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *node, c *reputations.Cache) {
		n.set(200*time.Millisecond, nil)
		var posts sync.WaitGroup
		for range 50 {
			posts.Go(func() {
				if c.Token(t.Context(), age) == "" {
					t.Error("a post has no token")
				}
			})
		}
		posts.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			if token, waited := took(c, ctx); token != "" || waited != 10*time.Millisecond {
				t.Errorf("%q after %s", token, waited)
			}
		})
		posts.Wait()
		check.WantEqual(t, n.questions(), 1)
	})
}

func TestTokensThatAreNone(t *testing.T) {
	for name, gives := range map[string]func(n *node){
		"no token":  func(n *node) { n.gives = "x" },
		"a moment":  func(n *node) { n.lifetime = 3 * time.Second },
		"tomorrow":  func(n *node) { n.ahead = 24 * time.Hour }, // no other would be asked for until then
		"an answer": func(n *node) { n.gives = "" },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node, c *reputations.Cache) {
				gives(n)
				for range 20 {
					token := c.Token(t.Context(), age)
					if (token != "") != (name == "an answer") {
						t.Fatalf("%.20q", token)
					}
				}
				check.WantEqual(t, n.questions(), 1)
			})
		})
	}
}

func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T, n *node, c *reputations.Cache) {
		wants := func(fetched, failed, sent, missing int, signed time.Time) {
			t.Helper()
			families, err := n.metrics.Gather()
			check.Must(t, err)
			got := make(map[string]int)
			for _, f := range families {
				for _, m := range f.GetMetric() {
					name := strings.TrimPrefix(f.GetName(), "mediator_reputation_")
					for _, l := range m.GetLabel() {
						name += " " + l.GetValue()
					}
					got[name] = int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
				}
			}
			seconds := 0
			if !signed.IsZero() {
				seconds = int(signed.Unix())
			}
			want := map[string]int{"questions_total fetched": fetched, "questions_total failed": failed,
				"posts_total sent": sent, "posts_total missing": missing, "signed_seconds": seconds}
			if !maps.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		}
		wants(0, 0, 0, 0, time.Time{})
		n.set(0, errors.New("away"))
		c.Token(t.Context(), age)
		c.State(t.Context(), age)
		wants(0, 1, 0, 1, time.Time{})
		n.set(0, nil)
		time.Sleep(time.Minute)
		signed := time.Now()
		c.Token(t.Context(), age)
		c.Token(t.Context(), age)
		c.State(t.Context(), age)
		wants(1, 1, 2, 1, signed)
	})
}

func TestState(t *testing.T) {
	bubble(t, func(t *testing.T, n *node, c *reputations.Cache) {
		away := errors.New("away")
		n.set(0, away)
		if s := c.State(t.Context(), age); s.Token != "" || !errors.Is(s.Failed, away) || !s.Issued.IsZero() {
			t.Errorf("%+v", s)
		}
		n.set(0, nil)
		time.Sleep(time.Minute)
		s := c.State(t.Context(), age)
		if s.Token == "" || s.Failed != nil || !s.Issued.Equal(time.Now()) || s.Until.Sub(s.Issued) != age-5*time.Second {
			t.Errorf("%+v", s)
		}
		n.set(0, away)
		time.Sleep(age)
		if old := c.State(t.Context(), age); old.Token != "" || !errors.Is(old.Failed, away) ||
			!old.Issued.Equal(s.Issued) || old.Until.After(time.Now()) {
			t.Errorf("%+v", old)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		c := reputations.New(reputations.Options{Ask: n.Reputation, Now: time.Now, Log: zap.NewNop()})
		n.set(time.Hour, nil)
		c.Token(t.Context(), age)
		c.Close()
		c.Close()
		if token, waited := took(c, t.Context()); token != "" || waited != 0 {
			t.Errorf("%q after %s", token, waited)
		}
		check.WantEqual(t, n.questions(), 1)
	})
}

func TestTokenOfARevokedVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		gone := ""
		c := reputations.New(reputations.Options{
			Ask: n.Reputation, Accepts: func(kid string) bool { return kid != gone }, Now: time.Now, Log: zap.NewNop(),
		})
		defer c.Close()
		first := c.Token(t.Context(), age)
		gone = evidence.KeyIDOf(first)
		n.kit.Rotate(t, evidence.PurposeAppraiser)
		time.Sleep(3 * time.Second) // the bubble's clock passes the pause between two requests
		if next := c.Token(t.Context(), age); next == "" || evidence.KeyIDOf(next) == gone {
			t.Errorf("the next token is by %q", evidence.KeyIDOf(next))
		}
	})
}
