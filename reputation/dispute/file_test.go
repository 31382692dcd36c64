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
		Sources: true, Cites: []string{bob, carol}, Verified: true,
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
	if e.Signal.Verified || e.Signal.Basis != "declared" || e.Signal.Sources || e.Signal.Closes != begin+24*3600 {
		t.Errorf("%+v", e.Signal)
	}
	for name, c := range map[string]struct {
		edit func(*dispute.Signal)
		code string
	}{
		"of another's id":  {func(s *dispute.Signal) { s.AgentID = bob }, "id_taken"},
		"changed":          {func(s *dispute.Signal) { s.Statement = "other" }, "id_taken"},
		"old":              {func(s *dispute.Signal) { s.SignalID, s.Timestamp = "x", begin-301 }, "clock_skew"},
		"of the future":    {func(s *dispute.Signal) { s.SignalID, s.Timestamp = "x", begin+301 }, "clock_skew"},
		"just not old":     {func(s *dispute.Signal) { s.SignalID, s.Timestamp = "x", begin-300 }, ""},
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

func TestPublishedEntriesCanBeRead(t *testing.T) {
	n := newNode(t)
	s, cites := signalOf(alice, "sig-1", begin), []string(nil)
	s.RestsOn = new(dispute.RestsOn)
	for i := range dispute.MaxReceipts {
		s.RestsOn.Receipts = append(s.RestsOn.Receipts, hashOf(i))
		cites = append(cites, agentOf("b", fmt.Sprintf("%02d", i)+strings.Repeat("\x01", 254)))
	}
	_, err := n.book.Publish(n.rules, dispute.Publication{Signal: s, By: n.by, Cites: cites}, n.now)
	check.WantCode(t, err, "statement_malformed")
	e, err := n.book.Publish(n.rules, dispute.Publication{Signal: s, By: n.by, Cites: cites[:32]}, n.now)
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

func TestEligibility(t *testing.T) {
	key, dora := keyOf("dora")
	for name, c := range map[string]struct {
		filed func(n *node) dispute.Filed
		code  string
		rules []string // that the challenger has violated then
	}{
		"a contract in the window": {func(n *node) dispute.Filed {
			return dispute.Filed{Filing: contractOf(bob, "c", "sig", begin), By: n.by}
		}, "", nil},
		"in its last second": {func(n *node) dispute.Filed {
			n.sleep(24*time.Hour - time.Second)
			return dispute.Filed{Filing: contractOf(bob, "c", "sig", n.now.Unix()), By: n.by}
		}, "", nil},
		"when it has closed": {func(n *node) dispute.Filed {
			n.sleep(24 * time.Hour)
			return dispute.Filed{Filing: contractOf(bob, "c", "sig", n.now.Unix()), By: n.by}
		}, "dispute_closed", []string{"window"}},
		"when it is final": {func(n *node) dispute.Filed {
			n.sleep(25 * time.Hour).finalise()
			return dispute.Filed{Filing: contractOf(bob, "c", "sig", n.now.Unix()), By: n.by}
		}, "dispute_closed", []string{"window"}},
		"a signal that nobody published": {func(n *node) dispute.Filed {
			return dispute.Filed{Filing: contractOf(bob, "c", "other", begin), By: n.by}
		}, "not_found", nil},
		"one's own signal": {func(n *node) dispute.Filed {
			return dispute.Filed{Filing: contractOf(alice, "c", "sig", begin), By: n.by}
		}, "dispute_refused", nil},
		"of the same owner": {func(n *node) dispute.Filed {
			return dispute.Filed{Filing: contractOf(anna, "c", "sig", begin), By: n.by}
		}, "", nil},
		"oneself": {func(n *node) dispute.Filed {
			f := challengeOf(alice, alice, "timing", hashOf(1))
			return dispute.Filed{Filing: f, By: n.by, Receipts: n.receipts(f)}
		}, "dispute_refused", nil},
		"not registered": {func(n *node) dispute.Filed {
			return dispute.Filed{Filing: contractOf(bob, "c", "sig", begin)}
		}, "dispute_refused", nil},
		"registered with the signal": {func(n *node) dispute.Filed {
			return dispute.Filed{Filing: contractOf(bob, "c", "sig", begin),
				By: dispute.By{Registered: time.Unix(begin, 0), Tier: "verified"}}
		}, "dispute_refused", nil},
		"registered a second before": {func(n *node) dispute.Filed {
			return dispute.Filed{Filing: contractOf(bob, "c", "sig", begin),
				By: dispute.By{Registered: time.Unix(begin-1, 0), Tier: "new"}}
		}, "", nil},
		"registered after the receipts": {func(n *node) dispute.Filed {
			f := challengeOf(bob, alice, "timing", hashOf(1))
			return dispute.Filed{Filing: f, By: dispute.By{Registered: n.now, Tier: "new"}, Receipts: n.receipts(f)}
		}, "dispute_refused", nil},
		"registered after one of the receipts": {func(n *node) dispute.Filed {
			f := challengeOf(bob, alice, "timing", hashOf(1), hashOf(2))
			receipts := n.receipts(f)
			receipts[1].At++
			return dispute.Filed{Filing: f, By: dispute.By{Registered: n.now, Tier: "new"}, Receipts: receipts}
		}, "dispute_refused", nil},
		"registered before what is brought besides": {func(n *node) dispute.Filed {
			f := challengeOf(bob, alice, "timing", hashOf(1))
			besides := dispute.Known{Hash: hashOf(2), Agent: carol, Session: "other", At: n.now.Unix() + 1}
			return dispute.Filed{Filing: f, By: dispute.By{Registered: n.now, Tier: "new"},
				Receipts: append(n.receipts(f), besides)}
		}, "dispute_refused", nil},
		"old": {func(n *node) dispute.Filed {
			return dispute.Filed{Filing: contractOf(bob, "c", "sig", begin-301), By: n.by}
		}, "clock_skew", nil},
		"neither contract nor challenge": {func(n *node) dispute.Filed {
			return dispute.Filed{By: n.by}
		}, "statement_malformed", nil},
		"of another form": {func(n *node) dispute.Filed {
			return dispute.Filed{Filing: contractOf(bob, "", "sig", begin), By: n.by}
		}, "statement_malformed", nil},
		"receipts that nobody has": {func(n *node) dispute.Filed {
			return dispute.Filed{Filing: challengeOf(bob, alice, "timing", hashOf(1)), By: n.by}
		}, "dispute_receipts", nil},
		"one of two that nobody has": {func(n *node) dispute.Filed {
			f := challengeOf(bob, alice, "timing", hashOf(1), hashOf(2))
			return dispute.Filed{Filing: f, By: n.by, Receipts: n.receipts(f)[:1]}
		}, "dispute_receipts", nil},
		"receipts of another agent": {func(n *node) dispute.Filed {
			f := challengeOf(bob, alice, "timing", hashOf(1))
			return dispute.Filed{Filing: f, By: n.by, Receipts: []dispute.Known{{Hash: hashOf(1), Agent: carol, At: begin}}}
		}, "dispute_receipts", nil},
		"timing of a signal without receipts": {func(n *node) dispute.Filed {
			f := contractOf(bob, "c", "sig", begin)
			f.Contract.ChallengeType = "timing"
			return dispute.Filed{Filing: f, By: n.by}
		}, "dispute_receipts", nil},
		"timing of a signal with receipts": {func(n *node) dispute.Filed {
			f := contractOf(bob, "c", "resting", begin)
			f.Contract.ChallengeType = "timing"
			return dispute.Filed{Filing: f, By: n.by, Receipts: n.receipts(f)}
		}, "", nil},
		"of an agent elsewhere": {func(n *node) dispute.Filed {
			f := challengeOf(dora, alice, "timing", hashOf(1))
			f.Challenge.Timestamp = begin
			f.Challenge.Signature = sign(n.t, key, *f.Challenge)
			return dispute.Filed{Filing: f, By: dispute.By{Registered: n.by.Registered, Tier: accrual.TierNew},
				Receipts: n.receipts(f)}
		}, "", nil},
		"of a tier that is none": {func(n *node) dispute.Filed {
			return dispute.Filed{Filing: contractOf(bob, "c", "sig", begin), By: dispute.By{Registered: n.by.Registered}}
		}, "dispute_rate", []string{"rate"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t).publish(alice, "sig")
			s := signalOf(alice, "resting", begin)
			s.RestsOn = &dispute.RestsOn{Receipts: []string{hashOf(1)}}
			e, err := n.book.Publish(n.rules, dispute.Publication{Signal: s, By: n.by}, n.now)
			check.Must(t, err)
			n.enter(*e)
			f := c.filed(n)
			entries := len(n.log)
			id, err := n.filed(f)
			wantCode(t, err, c.code)
			challenger := bob
			if f.Filing.Document() != nil {
				challenger = f.Filing.Document().Author()
			}
			check.WantEqual(t, n.violations(challenger), c.rules)
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

func TestIdentical(t *testing.T) {
	for name, c := range map[string]struct {
		first, second func(n *node) dispute.Filing
		code          string
	}{
		"another id and time": {
			func(*node) dispute.Filing { return contractOf(bob, "c", "sig", begin) },
			func(n *node) dispute.Filing {
				f := contractOf(bob, "c", "sig", begin+1)
				f.Contract.ChallengeID = "d"
				return f
			}, "dispute_closed"},
		"other words": {
			func(*node) dispute.Filing { return contractOf(bob, "c", "sig", begin) },
			func(n *node) dispute.Filing { return contractOf(bob, "d", "sig", begin) }, ""},
		"the same id for another contract": {
			func(*node) dispute.Filing { return contractOf(bob, "c", "sig", begin) },
			func(n *node) dispute.Filing {
				f := contractOf(bob, "c", "sig", begin)
				f.Contract.CounterClaim = "x"
				return f
			}, "id_taken"},
		"the id of another's contract": {
			func(*node) dispute.Filing { return contractOf(bob, "c", "sig", begin) },
			func(n *node) dispute.Filing { return contractOf(carol, "c", "sig", begin) }, ""},
		"another challenger": {
			func(*node) dispute.Filing { return challengeOf(bob, alice, "timing", hashOf(1)) },
			func(n *node) dispute.Filing { return challengeOf(carol, alice, "timing", hashOf(1)) }, ""},
		"another type": {
			func(*node) dispute.Filing { return challengeOf(bob, alice, "timing", hashOf(1)) },
			func(n *node) dispute.Filing { return challengeOf(bob, alice, "consistency", hashOf(1)) }, ""},
		"other receipts": {
			func(*node) dispute.Filing { return challengeOf(bob, alice, "timing", hashOf(1)) },
			func(n *node) dispute.Filing { return challengeOf(bob, alice, "timing", hashOf(2)) }, ""},
		"receipts in another order": {
			func(*node) dispute.Filing { return challengeOf(bob, alice, "timing", hashOf(1), hashOf(2)) },
			func(n *node) dispute.Filing { return challengeOf(bob, alice, "timing", hashOf(2), hashOf(1)) }, "dispute_closed"},
		"other words where receipts decide": {
			func(*node) dispute.Filing { return challengeOf(bob, alice, "timing", hashOf(1)) },
			func(n *node) dispute.Filing {
				f := challengeOf(bob, alice, "timing", hashOf(1))
				f.Challenge.Evidence = "look"
				return f
			}, "dispute_closed"},
		"other words where an arbiter decides": {
			func(*node) dispute.Filing { return challengeOf(bob, alice, "general", hashOf(1)) },
			func(n *node) dispute.Filing {
				f := challengeOf(bob, alice, "general", hashOf(1))
				f.Challenge.Evidence = "look"
				return f
			}, ""},
		"what was decided": {
			func(n *node) dispute.Filing { return challengeOf(bob, alice, "timing", hashOf(1)) },
			func(n *node) dispute.Filing {
				n.end(n.book.Unresolved()[0], accrual.TargetWins)
				f := challengeOf(bob, alice, "timing", hashOf(1))
				f.Challenge.Evidence = "again"
				return f
			}, "dispute_closed"},
		"what nobody has won": {
			func(n *node) dispute.Filing { return challengeOf(bob, alice, "timing", hashOf(1)) },
			func(n *node) dispute.Filing {
				n.end(n.book.Unresolved()[0], accrual.Inconclusive)
				f := challengeOf(bob, alice, "timing", hashOf(1))
				f.Challenge.Evidence = "again"
				return f
			}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t).publish(alice, "sig")
			f := c.first(n)
			first := n.open(f)
			second := c.second(n)
			id, err := n.file(second)
			wantCode(t, err, c.code)
			if c.code == "" && id == first {
				t.Error("both have one id")
			}
			if rules := n.violations(bob); len(rules) != btoi(c.code == "dispute_closed") {
				t.Errorf("the violations are %q", rules)
			}
			entries := len(n.log)
			again, err := n.file(f)
			check.Must(t, err)
			check.WantEqual(t, again, first)
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

func TestRate(t *testing.T) {
	for tier, most := range map[string]int{"new": 1, "building": 2, "established": 4, "trusted": 8, "verified": 16} {
		t.Run(tier, func(t *testing.T) {
			n := newNode(t)
			n.by.Tier = tier
			for _, f := range filings(bob, alice, 0, most) {
				n.open(f)
				n.sleep(time.Minute)
			}
			_, err := n.file(filings(bob, alice, 100, 1)[0])
			check.WantCode(t, err, "dispute_rate")
			var later refusal.Later
			if !errors.As(err, &later) || later.Seconds != 86400-60*most {
				t.Errorf("try again in %d s", later.Seconds)
			}
			n.sleep(time.Duration(later.Seconds)*time.Second - time.Second)
			_, err = n.file(filings(bob, alice, 101, 1)[0])
			check.WantCode(t, err, "dispute_rate")
			n.sleep(time.Second).open(filings(bob, alice, 102, 1)[0])
			check.WantEqual(t, n.violations(bob), []string{"rate", "rate"})
			if rules := n.violations(alice); rules != nil {
				t.Errorf("the accused has violated %q", rules)
			}
		})
	}
}

func TestLossesLimitTheRate(t *testing.T) {
	const day = 24 * time.Hour
	n := newNode(t)
	want := func(days int) {
		t.Helper()
		check.WantEqual(t, n.book.Allowed(bob, "new", n.now), dispute.Allowed{Disputes: 1, Period: time.Duration(days) * day})
	}
	want(1)
	for i, f := range filings(bob, alice, 0, 6) {
		n.end(n.open(f), accrual.TargetWins)
		want([]int{2, 4, 8, 16, 16, 16}[i])
		n.sleep(time.Hour)
	}
	n.by.Tier = accrual.TierNew
	n.sleep(16*day - time.Hour - time.Second)
	_, err := n.file(filings(bob, alice, 100, 1)[0])
	check.WantCode(t, err, "dispute_rate")
	n.sleep(time.Second).open(filings(bob, alice, 101, 1)[0])
	n.sleep(14*day - 5*time.Hour - time.Second) // 30 days after the first loss
	want(16)
	n.sleep(3*time.Hour + time.Second)
	want(4)
	n.sleep(day)
	want(1)
	// What is won, undecided, or lost as the accused limits nothing.
	n = newNode(t)
	n.end(n.open(filings(bob, alice, 0, 1)[0]), accrual.ChallengerWins)
	n.end(n.open(filings(bob, carol, 0, 1)[0]), accrual.Inconclusive)
	n.end(n.open(filings(carol, bob, 0, 1)[0]), accrual.ChallengerWins)
	want(1)
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

func TestNobodyLosesTwice(t *testing.T) {
	n := newNode(t)
	old := n.receipts(challengeOf(bob, alice, "timing", hashOf(1)))
	n.end(n.open(challengeOf(bob, alice, "timing", hashOf(1))), accrual.ChallengerWins)
	_, err := n.filed(dispute.Filed{Filing: challengeOf(carol, alice, "consistency", hashOf(1)), By: n.by, Receipts: old})
	check.WantCode(t, err, "dispute_receipts")
	n.sleep(time.Second)
	n.open(challengeOf(carol, alice, "consistency", hashOf(1))) // the session has gone on since
}
