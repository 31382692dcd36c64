package reputation_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

// TestDisputeCrash ends the node at each point of each step of a dispute. The client repeats the request, and the
// next start settles what is due: nothing is counted twice or lost.
func TestDisputeCrash(t *testing.T) {
	k := gatetest.New(t)
	n := nodetest.New(t, k, nil) // signs for the agents
	points := []string{"ledger begun", "ledger written", "ledger committed", "trial held", "step judged", "step made"}
	session := n.Calls(t, "ses_a", 3)
	session.Close(t)
	k.Clock.Advance(time.Second) // the session has ended
	v := newVictim(t, k)
	v.begin(t)
	say := func(point, path string, d dispute.Document, into any) {
		t.Helper()
		author, err := accrual.ParseAgent(dispute.Author(d))
		must(t, err)
		raw, err := json.Marshal(d)
		must(t, err)
		v.statement = n.Statement(t, d, nil)
		defer func() { v.statement = "" }()
		v.ask(t, point, path, func() string {
			return n.CallerToken(t, "ses_1", path, raw, func(c *interaction.Caller) { c.Agent = author.Subject })
		}, d, into)
	}
	agent := func(name string, i int) string { return n.Agent(t, name+strconv.Itoa(i)).String() }
	v.ask(t, "", "/v1/receipts", nil, map[string]any{"receipts": session.Receipts}, nil)
	for i, point := range points {
		signal := n.SignalOf(agent("agent:target-", i), "s-"+strconv.Itoa(i))
		var published reputation.Signal
		say(point, "/v1/signals", signal, &published)
		var opened reputation.Dispute
		say(point, "/v1/dispute", n.Contract(agent("agent:contract-", i), "con-"+strconv.Itoa(i), signal.SignalID), &opened)
		say(point, "/v1/dispute", dispute.Challenge{
			ChallengerID: agent("agent:challenge-", i), TargetID: k.Agent(t).String(), ChallengeType: dispute.TypeTiming,
			TargetReceipts: []string{evidence.HashToken(session.Receipts[0])},
		}, &opened)
		v.ask(t, point, "/settled", nil, struct{}{}, nil)
	}
	v.kill()
	raw, err := os.ReadFile(v.trust)
	must(t, err)
	var trust nodetest.Trust
	must(t, json.Unmarshal(raw, &trust))
	trust.Now = trust.Now.Add(72 * time.Hour) // the node was away for longer than all windows
	raw, err = json.Marshal(trust)
	must(t, err)
	must(t, os.WriteFile(v.trust, raw, 0o600))
	v.start(t)
	for _, point := range points {
		v.ask(t, point, "/settled", nil, struct{}{}, nil)
	}
	v.kill()
	// All points but one are in each of the four requests and in what ends windows; "trial held" is where disputes are
	// settled.
	if v.ended < 5*4 {
		t.Errorf("the node has ended only %d times", v.ended)
	}
	kept, err := store.Open(t.Context(), filepath.Join(v.dir, "reputation.db"), "")
	must(t, err)
	defer kept.Close()
	c := &court{Node: nodetest.New(t, k, kept)}
	happened := make(map[string]int)
	for _, one := range c.log(t) {
		happened[one]++
	}
	all := len(points)
	check.WantEqual(t, happened, map[string]int{"signal": all, "opened": 2 * all, "resolved": 2 * all, "final": all})
	for i := range points {
		// opened, ended, and what the signal was worth
		if r := c.reputation(t, agent("agent:target-", i)); r.ChallengesReceived != 1 || r.DisputesPending != 0 ||
			r.Log.Entries != 3 {
			t.Errorf("%s: %+v", points[i], r)
		}
		if r := c.reputation(t, agent("agent:challenge-", i)); r.DisputesLost != 1 || r.Log.Entries != 1 {
			t.Errorf("%s: %+v", points[i], r)
		}
	}
	if r := c.reputation(t, k.Agent(t).String()); r.ChallengesWon != int64(all) || r.ChallengesReceived != int64(all) {
		t.Errorf("%+v", r)
	}
}
