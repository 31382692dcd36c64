package dispute_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/check"
)

func (n *node) violations(id string) (rules []string) {
	for _, e := range n.accounts[id] {
		if e.Violation != nil {
			rules = append(rules, e.Violation.Rule)
		}
	}
	return rules
}

func TestPublish(t *testing.T) {
	n := newNode(t)
	s := signalOf(alice, "sig-1", begin)
	s.Horizon, s.RestsOn = dispute.HorizonLong, &dispute.RestsOn{Receipts: []string{hashOf(2), hashOf(1)}}
	hash, err := dispute.HashOf(s)
	check.Must(t, err)
	p := dispute.Publication{Signal: s, By: n.by, Observed: true, Sources: true, Cites: []string{carol, bob, carol}}
	e, err := n.book.Publish(n.rules, p, n.now)
	check.Must(t, err)
	check.WantEqual(t, *e.Signal, dispute.Published{
		SignalID: "sig-1", Agent: alice, Document: hash, Horizon: "long", Written: begin, Closes: begin + 72*3600,
		Basis: "observed", Receipts: []string{hashOf(2), hashOf(1)},
		Sources: true, Cites: []string{bob, carol}, Registered: n.by.Registered.Unix(),
	})
	n.enter(*e)
	if e, err := n.book.Publish(n.rules, p, n.now); e != nil || err != nil {
		t.Errorf("the same signal again: %+v, %v", e, err)
	}
	publish := func(s dispute.Signal, by dispute.By) (*dispute.Entry, error) {
		return n.book.Publish(n.rules, dispute.Publication{Signal: s, By: by, Observed: true, Sources: true}, n.now)
	}
	e, err = publish(signalOf(bob, "sig-2", begin), dispute.By{}) // everybody may publish
	check.Must(t, err)
	if e.Signal.Registered != 0 || e.Signal.Basis != "declared" || e.Signal.Sources || e.Signal.Closes != begin+24*3600 {
		t.Errorf("%+v", e.Signal)
	}
	for name, c := range map[string]struct {
		edit func(*dispute.Signal)
		code string
	}{
		"just not future":  {func(s *dispute.Signal) { s.SignalID, s.Timestamp = "x", begin+300 }, ""},
		"of another form":  {func(s *dispute.Signal) { s.SignalID = "" }, "statement_malformed"},
		"of no agent's id": {func(s *dispute.Signal) { s.SignalID, s.AgentID = "x", "did:key:z6Mk" }, "statement_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := s
			c.edit(&changed)
			_, err := publish(changed, n.by)
			wantCode(t, err, c.code)
		})
	}
	for i := range dispute.MaxRunning - 1 {
		n.publish(alice, fmt.Sprint("more-", i))
	}
	_, err = publish(signalOf(alice, "too-many", begin), n.by)
	check.WantCode(t, err, "too_many_open")
	n.sleep(24*time.Hour).finalise().publish(alice, "one-more")
}

// TestOpenIsBounded: agents of one owner share a bound, and so do all agents without a sidecar.
func TestOpenIsBounded(t *testing.T) {
	n := newNode(t)
	refused := func(agent, code string) {
		t.Helper()
		_, err := n.book.Publish(n.rules, dispute.Publication{Signal: signalOf(agent, "one-more", begin), By: n.by}, n.now)
		wantCode(t, err, code)
	}
	for i := range dispute.MaxRunning * dispute.OfOneOwner {
		_, err := n.book.Add(dispute.Entry{At: begin, Signal: &dispute.Published{
			SignalID: fmt.Sprint("sig-", i), Agent: agentOf("a", fmt.Sprint("agent:", i/dispute.MaxRunning)),
			Document: hashOf(i), Horizon: dispute.HorizonShort, Written: begin, Closes: begin + 1, Basis: dispute.BasisDeclared,
		}})
		check.Must(t, err)
	}
	refused(alice, "too_many_open")
	refused(bob, "")
	n.sleep(time.Second)
	n.enter(n.book.Finalise("sig-0", n.now))
	refused(alice, "")

	accuse := func(from int) error {
		_, err := n.file(filings(bob, alice, from, 1)[0])
		return err
	}
	for i := range dispute.MaxAccusing {
		check.Must(t, accuse(i))
		n.sleep(25 * time.Hour)
	}
	check.WantCode(t, accuse(50), "too_many_open")
	n.end(n.open(filings(carol, alice, 60, 1)[0]), accrual.Inconclusive) // another's
	check.WantCode(t, accuse(51), "too_many_open")
	n.end(dispute.DisputeID(n.log[1].Opened.Document), accrual.Inconclusive)
	check.Must(t, accuse(52))
}

func TestPublishedEntriesCanBeRead(t *testing.T) {
	n := newNode(t)
	s, cites := signalOf(alice, "sig-1", begin), []string(nil)
	s.RestsOn = new(dispute.RestsOn)
	for i := range 64 {
		s.RestsOn.Receipts = append(s.RestsOn.Receipts, hashOf(i))
		cites = append(cites, agentOf("b", fmt.Sprintf("%02d", i)+strings.Repeat("\x01", 254)))
	}
	_, err := n.book.Publish(n.rules, dispute.Publication{Signal: s, By: n.by, Cites: cites}, n.now)
	check.WantCode(t, err, "statement_malformed")
	e, err := n.book.Publish(n.rules, dispute.Publication{Signal: s, By: n.by, Cites: cites[:4]}, n.now)
	check.Must(t, err)
	text, err := e.Encode()
	check.Must(t, err)
	_, err = dispute.ParseEntry(text)
	check.Must(t, err)
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if code == "" {
		check.Must(t, err)
		return
	}
	check.WantCode(t, err, code)
}

// TestEligibility: what the golden vectors do not show.
func TestEligibility(t *testing.T) {
	key, dora := keyOf("dora")
	late := func(f *dispute.Filed) { f.By = dispute.By{Registered: time.Unix(begin, 0)} }
	two := challengeOf(bob, alice, "timing", hashOf(1), hashOf(2))
	for name, c := range map[string]struct {
		filing dispute.Filing
		edit   func(*dispute.Filed)
		code   string
		rules  []string // that the challenger has violated then
	}{
		"a contract in the window": {contractOf(bob, "c", "sig", begin), nil, "", nil},
		"a challenge of oneself":   {challengeOf(alice, alice, "timing", hashOf(1)), nil, "dispute_refused", nil},
		"registered after one of the receipts": {two, func(f *dispute.Filed) {
			late(f)
			f.Receipts[1].At++
		}, "dispute_refused", nil},
		"registered before what is brought besides": {two, func(f *dispute.Filed) {
			late(f)
			f.Receipts = append(f.Receipts, dispute.Known{Hash: hashOf(3), Agent: carol, Session: "other", At: begin + 1})
		}, "dispute_refused", nil},
		"old": {contractOf(bob, "c", "sig", begin-301), nil, "clock_skew", nil},
		"neither contract nor challenge": {two, func(f *dispute.Filed) { f.Filing = dispute.Filing{} },
			"statement_malformed", nil},
		"of another form":            {contractOf(bob, "", "sig", begin), nil, "statement_malformed", nil},
		"one of two that nobody has": {two, func(f *dispute.Filed) { f.Receipts = f.Receipts[:1] }, "dispute_receipts", nil},
		"of an agent elsewhere": {challengeOf(dora, alice, "timing", hashOf(1)), func(f *dispute.Filed) {
			f.Filing.Challenge.Timestamp = begin
			f.Filing.Challenge.Signature = sign(t, key, *f.Filing.Challenge)
		}, "", nil},
		"registered for less than a week": {contractOf(bob, "c", "sig", begin),
			func(f *dispute.Filed) { f.By.Registered = time.Unix(begin-7*86400+1, 0) }, "dispute_rate", []string{"rate"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t).publish(alice, "sig")
			f := dispute.Filed{Filing: c.filing, By: n.by, Receipts: n.receipts(c.filing)}
			if c.edit != nil {
				c.edit(&f)
			}
			entries := len(n.log)
			id, err := n.filed(f)
			wantCode(t, err, c.code)
			check.WantEqual(t, n.violations(bob), c.rules)
			d, there := n.book.Dispute(id)
			if there != (c.code == "") || len(n.log)-entries != len(c.rules)+btoi(there) {
				t.Errorf("the dispute: %+v; %d entries", d, len(n.log)-entries)
			}
			if there && (d.Status != dispute.StatusPending || d.Deadline != n.now.Unix()+72*3600) {
				t.Errorf("%+v", d)
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestSessionsOfADispute(t *testing.T) {
	for sessions, code := range map[int]string{dispute.MaxSessions: "", dispute.MaxSessions + 1: "dispute_receipts"} {
		n := newNode(t)
		f := dispute.Filed{By: n.by, Filing: challengeOf(bob, alice, "timing")}
		for i := range sessions {
			f.Filing.Challenge.TargetReceipts = append(f.Filing.Challenge.TargetReceipts, hashOf(i))
			f.Receipts = append(f.Receipts, dispute.Known{Hash: hashOf(i), Agent: alice, Session: fmt.Sprint(i), At: begin})
		}
		_, err := n.filed(f)
		wantCode(t, err, code)
	}
}

// TestIdentical: what the golden vectors do not show.
func TestIdentical(t *testing.T) {
	timing := challengeOf(bob, alice, "timing", hashOf(1))
	other := contractOf(bob, "d", "sig", begin+1)
	other.Contract.ReasoningTrace = contractOf(bob, "c", "sig", begin).Contract.ReasoningTrace
	for name, c := range map[string]struct {
		first, second dispute.Filing
		code          string
	}{
		"another id and time": {contractOf(bob, "c", "sig", begin), other, "dispute_closed"},
		"other words":         {contractOf(bob, "c", "sig", begin), contractOf(bob, "d", "sig", begin), ""},
		"another challenger":  {timing, challengeOf(carol, alice, "timing", hashOf(1)), ""},
		"other receipts":      {timing, challengeOf(bob, alice, "timing", hashOf(2)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t).publish(alice, "sig")
			first := n.open(c.first)
			id, err := n.file(c.second)
			wantCode(t, err, c.code)
			if c.code == "" && id == first {
				t.Error("both have one id")
			}
			if rules := n.violations(bob); len(rules) != btoi(c.code == "dispute_closed") {
				t.Errorf("the violations are %q", rules)
			}
			entries := len(n.log)
			check.WantEqual(t, n.open(c.first), first)
			check.WantEqual(t, len(n.log), entries)
		})
	}
}

func filings(challenger, target string, from, n int) (all []dispute.Filing) {
	for i := range n {
		all = append(all, challengeOf(challenger, target, "timing", hashOf("receipt", from+i)))
	}
	return all
}

const days = 24 * time.Hour

// TestStandingWithinOneOwner: an owner gets no standing from itself.
func TestStandingWithinOneOwner(t *testing.T) {
	n := newNode(t)
	n.by.Registered = n.now
	n.sleep(10 * days)
	for i, c := range []struct {
		target string
		want   int64
	}{{dispute.OwnerOf(bob) + ":agent:other", 9}, {alice, 10}} {
		id, err := n.file(challengeOf(bob, c.target, "timing", hashOf("own", i)))
		check.Must(t, err)
		n.end(id, wins)
		check.WantEqual(t, n.book.Standing(bob, n.by.Registered, n.now), c.want)
		n.sleep(time.Second)
	}
}

// TestStanding: an accusation costs a day, a wrong one a week more, and a right one nothing.
func TestStanding(t *testing.T) {
	n := newNode(t)
	n.by.Registered = n.now
	n.sleep(time.Second)
	want := func(agent string, standing int64) {
		t.Helper()
		check.WantEqual(t, n.book.Standing(agent, n.by.Registered, n.now), standing)
	}
	next := 0
	file := func() (string, error) {
		next++
		return n.file(filings(bob, alice, next, 1)[0])
	}
	open := func(outcome string) {
		t.Helper()
		id, err := file()
		check.Must(t, err)
		n.end(id, outcome)
	}
	refused := func(wait time.Duration) {
		t.Helper()
		_, err := file()
		check.WantCode(t, err, "dispute_rate")
		var later refusal.Later
		if !errors.As(err, &later) || later.Seconds != int(wait/time.Second) {
			t.Errorf("try again in %d s, want %s", later.Seconds, wait)
		}
	}
	want(bob, 0)
	refused(7*days - time.Second) // a new key waits as long as after a lost dispute
	n.sleep(7*days - 2*time.Second)
	want(bob, 6)
	refused(time.Second)
	n.sleep(time.Second)
	open(nobody)
	want(bob, 6)
	refused(days)
	n.sleep(days)
	open(wins)
	want(bob, 8) // what it has lost
	n.sleep(time.Second)
	open(wins)
	want(bob, 8) // and no more than the days since its registration
	n.sleep(time.Second)
	open(loses)
	want(bob, 0)
	want(alice, 8) // since its registration
	refused(7*days - 2*time.Second)
	n.sleep(100 * days)
	want(bob, dispute.MaxStanding)
	for range dispute.MaxStanding - dispute.Stake + 1 {
		id, err := file()
		check.Must(t, err)
		n.end(id, nobody)
	}
	refused(days)
	for i := range int64(3) {
		n.sleep(days)
		open(wins)
		want(bob, 8+2*i)
	}
	check.WantEqual(t, len(n.violations(bob)), 5)
	check.WantEqual(t, len(n.violations(alice)), 0)
}

// TestCrowd: any number of new keys cannot keep an agent elsewhere from publishing, or from disputing.
func TestCrowd(t *testing.T) {
	n := newNode(t)
	_, dora := keyOf("dora")
	old, fresh := n.by, dispute.By{Registered: n.now.Add(-2 * time.Hour)}
	publish := func(agent, id string, by dispute.By) error {
		e, err := n.book.Publish(n.rules, dispute.Publication{Signal: signalOf(agent, id, n.now.Unix()), By: by}, n.now)
		if err == nil {
			_, err = n.book.Add(*e)
		}
		return err
	}
	published := func(agent string, by dispute.By) (all int) {
		for publish(agent, fmt.Sprint(agent[8:], "-", all), by) == nil {
			all++
		}
		return all
	}
	crowd := 0
	for i := range 150 {
		_, key := keyOf(fmt.Sprint("crowd", i))
		crowd += published(key, fresh)
	}
	if crowd > dispute.MaxRunning*dispute.OfOneOwner*2 {
		t.Errorf("a crowd has %d open signals", crowd)
	}
	check.WantEqual(t, published(dora, old), dispute.MaxRunning) // 21 days outweigh 2 hours
	late := dispute.By{Registered: n.now}
	_, last := keyOf("late")
	if got := published(last, late); got > dispute.MaxRunning/4 {
		t.Errorf("one of the crowd has %d open signals", got)
	}
	check.WantEqual(t, published(alice, dispute.By{}), dispute.MaxRunning) // owners have their own bounds
}

func TestViolationsAreBounded(t *testing.T) {
	n := newNode(t).publish(alice, "sig").sleep(24 * time.Hour)
	late := contractOf(bob, "c", "sig", n.now.Unix())
	for range 3 {
		_, err := n.file(late)
		check.WantCode(t, err, "dispute_closed")
	}
	check.WantEqual(t, n.violations(bob), []string{"window"})
	for i := range 20 {
		_, err := n.file(contractOf(bob, fmt.Sprint("c", i), "sig", n.now.Unix()))
		check.WantCode(t, err, "dispute_closed")
	}
	check.WantEqual(t, len(n.violations(bob)), dispute.MaxViolations)
	n.sleep(24 * time.Hour)
	_, err := n.file(contractOf(bob, "tomorrow", "sig", n.now.Unix()))
	check.WantCode(t, err, "dispute_closed")
	check.WantEqual(t, len(n.violations(bob)), dispute.MaxViolations+1)
}
