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
	c := newReplicas(t, kit.Database(t), 2, modelRule)
	const sessions, calls = 6, 5
	ids := make([]string, sessions)
	var all sync.WaitGroup
	for i := range sessions {
		r := c.all[i%len(c.all)]
		agent, path := c.agent(t, r), fmt.Sprintf("/posts/after-%d", i)
		answer := c.solvedBy(t, r, path)
		ids[i] = agent.Session.Session
		all.Go(func() {
			for range calls {
				callModel(agent)
			}
			agent.Header = answer
			if o := post(agent, path); o.Code != "" {
				t.Errorf("%s: %+v", path, o)
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
	staying, going := c.agent(t, survivor), c.agent(t, victim)
	kept, lost := staying.Session.Session, going.Session.Session
	arrived, let := make(chan struct{}), make(chan struct{})
	c.holdWith(func(*http.Request, http.ResponseWriter) { arrived <- struct{}{}; <-let })
	all.Go(func() { callModel(staying) })
	all.Go(func() { callModel(going) })
	<-arrived
	<-arrived
	dead := victim.Processes[len(victim.Processes)-1]
	check.Must(t, dead.Cmd.Process.Kill())
	<-dead.Done
	victim.Processes = victim.Processes[:len(victim.Processes)-1]
	check.Must(t, victim.StartProcess("serve", devstack.SidecarFile))
	c.certify(t, victim)
	victim.ready(t)
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
	callModel(staying)
	if chain := c.chainAt(t, survivor, kept, 2); chain[0].Outcome == interaction.OutcomeIndeterminate ||
		chain[1].Closing != nil {
		t.Errorf("the chain of the other replica: %+v", chain)
	}
}

// chainAt waits until a session of a replica has so many receipts, and verifies its chain by the replica's bundle.
func (c *replicas) chainAt(t *testing.T, r *replica, session string, want int) []interaction.Receipt {
	t.Helper()
	deployment := *c.Deployment
	deployment.Dir = r.Dir
	at := &crashRig{Rig: &kit.Rig{Deployment: &deployment}, dsn: c.dsn}
	return at.waitForReceipts(t, session, want)
}
