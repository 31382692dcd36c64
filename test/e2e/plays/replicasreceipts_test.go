package plays

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestReplicasMakeReceipts runs two sidecars that make receipts on one database, with sessions at both. Each session
// has its own complete chain and its post. Then one is killed during a call. The other continues, and only the next
// start of the killed one closes what it left open.
func TestReplicasMakeReceipts(t *testing.T) {
	t.Parallel()
	ctx := withPatience(t)
	c := newReplicas(ctx, t, kit.Database(t), 2, modelRule)
	const sessions, calls = 6, 5
	ids := make([]string, sessions)
	var all sync.WaitGroup
	for i := range sessions {
		r := c.all[i%len(c.all)]
		agent, id := c.session(ctx, t, r)
		path := fmt.Sprintf("/posts/after-%d", i)
		answer := c.solvedBy(ctx, t, r, path)
		ids[i] = id
		all.Go(func() {
			for range calls {
				c.callModel(agent)
			}
			if resp, d := c.try(ctx, t, agent, path, answer); resp.StatusCode != http.StatusCreated {
				t.Errorf("%s: %d %s", path, resp.StatusCode, d.Code)
			}
		})
	}
	all.Wait()
	for i, id := range ids {
		chain := c.chainAt(t, c.all[i%len(c.all)], id, calls+1)
		if last := chain[calls]; last.Post == nil || last.Outcome != interaction.OutcomeCompleted {
			t.Errorf("the last receipt of %s is not that of its post: %+v", id, last)
		}
	}

	survivor, victim := c.all[0], c.all[1]
	staying, kept := c.session(ctx, t, survivor)
	going, lost := c.session(ctx, t, victim)
	arrived, let := make(chan struct{}), make(chan struct{})
	c.holdWith(func(*http.Request, http.ResponseWriter) { arrived <- struct{}{}; <-let })
	all.Go(func() { c.callModel(staying) })
	all.Go(func() { c.callModel(going) })
	<-arrived
	<-arrived
	dead := victim.Processes[len(victim.Processes)-1]
	check.Must(t, dead.Cmd.Process.Kill())
	<-dead.Done
	victim.Processes = victim.Processes[:len(victim.Processes)-1]
	check.Must(t, victim.StartProcess("serve", devstack.SidecarFile))
	c.certify(ctx, t, victim)
	victim.ready(ctx, t)
	chain := c.chainAt(t, victim, lost, 2)
	if chain[0].Outcome != interaction.OutcomeIndeterminate || chain[1].Closing == nil ||
		chain[1].Closing.Reason != interaction.ClosedLost {
		t.Errorf("the call that was open: %+v, the end: %+v", chain[0], chain[1])
	}
	if receipts := c.stored(t, kept); len(receipts) != 0 {
		t.Errorf("the open call of the other replica has %d receipts", len(receipts))
	}
	c.holdWith(nil)
	close(let)
	all.Wait()
	c.callModel(staying)
	if chain := c.chainAt(t, survivor, kept, 2); chain[0].Outcome == interaction.OutcomeIndeterminate ||
		chain[1].Closing != nil {
		t.Errorf("the chain of the other replica: %+v", chain)
	}
}

// chainAt waits until a session of a replica has so many receipts, and verifies its chain by the replica's bundle.
func (c *replicas) chainAt(t *testing.T, r *replica, session string, want int) []interaction.Receipt {
	t.Helper()
	at := &crashRig{Deployment: c.Deployment, dsn: c.dsn}
	deployment := *c.Deployment
	at.Deployment = &deployment
	at.Dir = r.Dir
	return at.waitForReceipts(t, session, want)
}
