package reputation_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

func replicas(t *testing.T) (both [2]*court) {
	t.Helper()
	k := gatetest.New(t)
	root, decide := nodetest.Arbiter(t, k)
	for i, n := range together(t, k, func(o *reputation.Options) { o.Disputes.Court.First = dispute.Panel{{Root: root}} }) {
		c := &court{Node: n, decide: decide}
		c.one, c.two = c.Agent(t, "agent:one").String(), c.Agent(t, "agent:two").String()
		both[i] = c
	}
	return both
}

func TestLastSecond(t *testing.T) {
	both := replicas(t)
	c, ctx := both[0], t.Context()
	c.published(t, "s-1")
	const clients = 64
	documents := make([]reputation.Spoken, clients)
	c.Kit.Clock.Advance(24*time.Hour - time.Second)
	for i := range documents {
		documents[i] = c.Says(t, c.Contract(c.Agent(t, fmt.Sprint("agent:", i)).String(), fmt.Sprint("con-", i), "s-1"))
	}
	var opened, late, done atomic.Int64
	var all sync.WaitGroup
	all.Go(func() { // the window ends while others come in
		for opened.Load() < clients/4 && done.Load() < clients {
			runtime.Gosched()
		}
		c.Kit.Clock.Advance(time.Second)
		for _, one := range both {
			if err := one.Settle(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	for i, from := range documents {
		all.Go(func() {
			defer done.Add(1)
			for try := 0; ; try++ {
				d, err := both[(i+try)%2].File(ctx, from)
				switch {
				case err == nil && d.Status == dispute.StatusPending:
					opened.Add(1)
				case check.CodeOf(err) == "dispute_closed":
					late.Add(1)
				case check.CodeOf(err) == "overloaded":
					continue
				default:
					t.Errorf("%+v, %v", d, err)
				}
				return
			}
		})
	}
	all.Wait()
	for _, one := range both {
		must(t, one.Settle(ctx))
	}
	happened := make(map[string]int64)
	for _, one := range c.log(t) {
		happened[one]++
	}
	for name, want := range map[string]int64{"signal": 1, "opened": opened.Load(), "violation": late.Load(), "final": 1} {
		if happened[name] != want {
			t.Errorf("%d %s, want %d", happened[name], name, want)
		}
	}
	if opened.Load()+late.Load() != clients {
		t.Errorf("%d opened, %d late", opened.Load(), late.Load())
	}
	for _, one := range both {
		if r := one.reputation(t, c.one); r.DisputesPending != opened.Load() || r.ChallengesReceived != opened.Load() {
			t.Errorf("%d pending, %d received, of %d", r.DisputesPending, r.ChallengesReceived, opened.Load())
		}
	}
	check.WantEqual(t, both[0].checkpoint(t), both[1].checkpoint(t))
}

func TestReplicasResolveOnce(t *testing.T) {
	both := replicas(t)
	c, ctx := both[0], t.Context()
	const disputes = 8
	var tokens, ids []string
	for i := range disputes {
		id := fmt.Sprint("s-", i)
		c.published(t, id)
		d, err := both[i%2].File(ctx,
			c.Says(t, c.Contract(c.Agent(t, fmt.Sprint("agent:", i)).String(), fmt.Sprint("con-", i), id)))
		must(t, err)
		ids = append(ids, d.DisputeID)
		tokens = append(tokens, c.decide(func(of *dispute.Decision) {
			of.DisputeID, of.Document = d.DisputeID, documentOf(t, d)
		}))
	}
	for i := range disputes {
		s := c.Calls(t, fmt.Sprint("ses_", i), 3)
		s.Close(t)
		c.Delivered(t, 5, s.Receipts...)
	}
	last := c.challenged(t, dispute.TypeTiming, closed(t, c.Node, "ses_z", 3), 1)
	var all sync.WaitGroup
	for _, one := range both {
		all.Go(func() {
			if err := errors.Join(one.Settle(ctx), one.Enter(ctx)); err != nil {
				t.Error(err)
			}
		})
		for i := range disputes {
			all.Go(func() {
				if got, err := one.Arbitrate(ctx, ids[i], tokens[i]); err != nil || got.Outcome != accrual.ChallengerWins {
					t.Errorf("%+v, %v", got, err)
				}
			})
		}
	}
	all.Wait()
	c.Kit.Clock.Advance(24 * time.Hour)
	for _, one := range both {
		all.Go(func() {
			if err := one.Settle(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	happened := make(map[string]int)
	for _, one := range c.log(t) {
		happened[one]++
	}
	check.WantEqual(t, happened,
		map[string]int{"signal": disputes, "opened": disputes + 1, "voted": disputes, "resolved": disputes + 1,
			"final": disputes})
	for _, one := range both {
		must(t, one.Enter(ctx))
		if r := one.reputation(t, c.one); r.ChallengesLost != disputes || r.DisputesPending != 0 {
			t.Errorf("%+v", r)
		}
		if r := one.reputation(t, c.Kit.Agent(t).String()); r.ChallengesWon != 1 || r.TotalSessions != disputes+1 ||
			r.Log.Entries != disputes+1+2 {
			t.Errorf("%+v", r)
		}
		if got, err := one.Dispute(ctx, last); err != nil || got.Outcome != accrual.TargetWins {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// A replica can start while another adds to the log.
func TestCheckBesideAReplica(t *testing.T) {
	both := replicas(t)
	var adding sync.WaitGroup
	var added atomic.Bool
	adding.Go(func() {
		defer added.Store(true)
		for i := range dispute.MaxRunning {
			c := both[0]
			if _, err := c.Publish(t.Context(), c.Says(t, c.SignalOf(c.one, fmt.Sprint("s-", i)))); err != nil {
				t.Error(err)
			}
		}
	})
	for !added.Load() {
		if err := both[1].Check(t.Context()); err != nil {
			t.Error(err)
			break
		}
	}
	adding.Wait()
}
