package dispute_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/check"
)

const (
	wins   = accrual.ChallengerWins
	loses  = accrual.TargetWins
	nobody = accrual.Inconclusive
)

func TestJudged(t *testing.T) {
	n := newNode(t)
	first, second := n.open(challengeOf(bob, alice, "timing", hashOf(1))),
		n.open(challengeOf(carol, alice, "timing", hashOf(2)))
	n.sleep(time.Second).fell(first, hashOf("one"))
	check.WantEqual(t, n.book.Judged(second), map[string]bool{})
	n.sleep(time.Second)
	third := n.open(challengeOf(carol, alice, "timing", hashOf(3)))
	n.sleep(time.Second).fell(second, hashOf("one")) // it counts no more
	check.WantEqual(t, n.book.Judged(third), map[string]bool{hashOf(first): true})
	n.sleep(time.Second)
	check.WantEqual(t, n.book.Judged(n.open(challengeOf(bob, alice, "timing", hashOf(4)))),
		map[string]bool{hashOf(first): true, hashOf(second): true})
	check.WantEqual(t, n.book.Judged(n.open(challengeOf(alice, bob, "timing", hashOf(5)))), map[string]bool{})
	check.WantEqual(t, n.book.Judged("dsp"), map[string]bool{})
}

func TestWhoEndsADispute(t *testing.T) {
	resolved := func(resolver, outcome string, edits ...func(*dispute.Resolved)) func(*dispute.Resolved) {
		return func(r *dispute.Resolved) {
			r.Resolver, r.Outcome = resolver, outcome
			if resolver == dispute.ResolverArbiter {
				r.Decisions = []string{hashOf(r.DisputeID, "arbiter:v1", outcome)}
			}
			for _, edit := range edits {
				edit(r)
			}
		}
	}
	won := func(edit func(*dispute.Resolved)) func(*dispute.Resolved) { return resolved("automated", wins, edit) }
	for name, c := range map[string]struct {
		kind string
		late bool
		edit func(*dispute.Resolved)
		ok   bool
	}{
		"rules, for the challenger":  {"timing", false, resolved("automated", wins), true},
		"rules, for the target":      {"knowledge", false, resolved("automated", loses), true},
		"rules, for nobody":          {"consistency", false, resolved("automated", nobody), true},
		"rules, late":                {"timing", true, resolved("automated", wins), true},
		"rules, of a general one":    {"general", false, resolved("automated", loses), false},
		"an arbiter":                 {"general", false, resolved("arbiter", wins), true},
		"an arbiter, late":           {"general", true, resolved("arbiter", wins), true}, // who voted in time
		"an arbiter, of receipts":    {"timing", false, resolved("arbiter", wins), false},
		"the deadline, early":        {"general", false, resolved("deadline", nobody), false},
		"the deadline":               {"general", true, resolved("deadline", nobody), true},
		"the deadline, of receipts":  {"timing", true, resolved("deadline", nobody), true},
		"the deadline, for somebody": {"general", true, resolved("deadline", wins), false},
		"somebody else":              {"general", false, resolved("target", loses), false},
		"an arbiter without decision": {"general", false,
			resolved("arbiter", wins, func(r *dispute.Resolved) { r.Decisions = nil }), false},
		"an arbiter of another mind": {"general", false, resolved("arbiter", wins, func(r *dispute.Resolved) { r.Outcome = loses }),
			false},
		"an arbiter without a vote": {"general", false,
			resolved("arbiter", wins, func(r *dispute.Resolved) { r.Decisions = []string{hashOf("other")} }), false},
		"rules with a decision": {"timing", false, won(func(r *dispute.Resolved) { r.Decisions = []string{hashOf(1)} }), false},
		"no outcome":            {"timing", false, resolved("automated", ""), false},
		"no reason":             {"timing", false, won(func(r *dispute.Resolved) { r.Reason = "" }), false},
		"malicious, and won":    {"timing", false, won(func(r *dispute.Resolved) { r.Malicious = true }), false},
		"another dispute": {"timing", false, won(func(r *dispute.Resolved) {
			r.DisputeID = dispute.DisputeID(hashOf(9))
		}), false},
		"inputs in disorder": {"timing", false, won(func(r *dispute.Resolved) {
			r.Inputs = []string{strings.Repeat("b", 64), strings.Repeat("a", 64)}
		}), false},
		"an input twice": {"timing", false, won(func(r *dispute.Resolved) {
			r.Inputs = []string{hashOf(1), hashOf(1)}
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			id := n.open(challengeOf(bob, alice, c.kind, hashOf(1)))
			if c.kind == dispute.TypeGeneral {
				n.vote(id, "arbiter:v1", wins)
			}
			n.sleep(72*time.Hour - time.Second)
			if c.late {
				n.sleep(time.Second)
			}
			check.WantEqual(t, n.book.Late(id, n.now), c.late)
			r := &dispute.Resolved{DisputeID: id, Finding: dispute.Finding{Reason: "because"}}
			c.edit(r)
			before, log := state(t, n, everybody), n.book.Log()
			s, err := n.book.Add(dispute.Entry{At: n.book.Time(n.now), Resolved: r})
			if (err == nil) != c.ok {
				t.Fatal(err)
			}
			d, _ := n.book.Dispute(id)
			if !c.ok {
				check.WantEqual(t, d.Status, dispute.StatusPending)
				check.WantEqual(t, state(t, n, everybody), before)
				check.WantEqual(t, n.book.Log(), log)
				return
			}
			check.WantEqual(t, d.Status, dispute.StatusResolved)
			check.WantEqual(t, d.Log, s.Log)
			check.WantEqual(t, n.unresolved(), []string(nil))
			for _, again := range []string{wins, loses, nobody} { // nothing changes an end
				if e, err := n.book.Next(n.book.End(id, dispute.Finding{Outcome: again, Reason: "because"},
					n.now)); err == nil {
					t.Errorf("it ends again: %+v", e)
				}
			}
			if _, err := n.book.Next(n.book.Review(id, n.now)); err == nil {
				t.Error("somebody looks at it again")
			}
		})
	}
}

func TestReviewing(t *testing.T) {
	n := newNode(t)
	id := n.open(challengeOf(bob, alice, "general", hashOf(1)))
	n.enter(n.book.Review(id, n.now))
	if d, _ := n.book.Dispute(id); d.Status != dispute.StatusReviewing {
		t.Errorf("%+v", d)
	}
	if _, err := n.book.Next(n.book.Review(id, n.now)); err == nil {
		t.Error("twice")
	}
	n.sleep(72 * time.Hour)
	n.enter(n.book.Expire(id, n.now))
	d, _ := n.book.Dispute(id)
	check.WantEqual(t, []string{d.Status, d.Resolved.Outcome, d.Resolved.Resolver, d.Resolved.Reason},
		[]string{"resolved", nobody, "deadline", "no_arbiter"})
}

func TestEntriesThatNoLogHas(t *testing.T) {
	n := newNode(t).publish(alice, "sig")
	open := n.open(contractOf(bob, "c", "sig", begin))
	n.sleep(time.Hour)
	last := n.log[len(n.log)-1].Opened
	opened := func(edit func(*dispute.Opened)) dispute.Entry {
		o := *last
		o.Document, o.Substance, o.ContractID = hashOf("other"), hashOf("other"), "c2"
		o.DisputeID = dispute.DisputeID(o.Document)
		edit(&o)
		return dispute.Entry{At: n.book.Time(n.now), Opened: &o}
	}
	published := func(edit func(*dispute.Published)) dispute.Entry {
		p := *n.log[0].Signal
		p.SignalID = "sig2"
		edit(&p)
		return dispute.Entry{At: n.book.Time(n.now), Signal: &p}
	}
	final := func(after int64, signal string) dispute.Entry {
		return dispute.Entry{At: begin + after, Final: &dispute.Final{SignalID: signal}}
	}
	violation := func(agent, rule string) dispute.Entry {
		return dispute.Entry{At: begin + 9999,
			Violation: &dispute.Violation{Agent: agent, Rule: rule, Document: hashOf(1)}}
	}
	reviewing := func(id string) dispute.Entry {
		return dispute.Entry{At: begin + 9999, Reviewing: &dispute.Reviewing{DisputeID: id}}
	}
	later := func(e dispute.Entry, by int64) dispute.Entry { e.At += by; return e }
	fine := func(*dispute.Opened) {}
	for name, c := range map[string]struct {
		entry dispute.Entry
		ok    bool
	}{
		"a dispute":             {opened(fine), true},
		"before the last entry": {dispute.Entry{At: begin - 1, Opened: opened(fine).Opened}, false},
		"without a time":        {dispute.Entry{Opened: opened(fine).Opened}, false},
		"about nothing":         {dispute.Entry{At: begin}, false},
		"about two": {
			dispute.Entry{At: begin, Opened: opened(fine).Opened, Final: &dispute.Final{SignalID: "sig"}}, false},
		"the document again": {opened(func(o *dispute.Opened) {
			o.Document = last.Document
			o.DisputeID = last.DisputeID
		}), false},
		"an id that is not its own": {opened(func(o *dispute.Opened) {
			o.DisputeID = dispute.DisputeID(hashOf(1))
		}), false},
		"the substance again":         {opened(func(o *dispute.Opened) { o.Substance = last.Substance }), false},
		"the contract again":          {opened(func(o *dispute.Opened) { o.ContractID = "c" }), false},
		"no contract":                 {opened(func(o *dispute.Opened) { o.ContractID = "" }), false},
		"no signal":                   {opened(func(o *dispute.Opened) { o.SignalID = "" }), false},
		"another signal":              {opened(func(o *dispute.Opened) { o.SignalID = "other" }), false},
		"a signal of somebody else":   {opened(func(o *dispute.Opened) { o.Target = carol }), false},
		"against itself":              {opened(func(o *dispute.Opened) { o.Challenger = o.Target }), false},
		"over before it begins":       {opened(func(o *dispute.Opened) { o.Deadline = begin }), false},
		"of too little standing":      {opened(func(o *dispute.Opened) { o.Standing = 6 }), false},
		"of too much standing":        {opened(func(o *dispute.Opened) { o.Standing = 22 }), false},
		"unregistered":                {opened(func(o *dispute.Opened) { o.Registered = 0 }), false},
		"of no type":                  {opened(func(o *dispute.Opened) { o.Type = "" }), false},
		"of receipts without any":     {opened(func(o *dispute.Opened) { o.Type = "timing" }), false},
		"in the window's last second": {later(opened(fine), 23*3600-1), true},
		"after the window":            {later(opened(fine), 23*3600), false},
		"a signal":                    {published(func(*dispute.Published) {}), true},
		"the signal again":            {published(func(p *dispute.Published) { p.SignalID = "sig" }), false},
		"a signal without a window":   {published(func(p *dispute.Published) { p.Closes = begin }), false},
		"observed without receipts":   {published(func(p *dispute.Published) { p.Basis = "observed" }), false},
		"sources without receipts":    {published(func(p *dispute.Published) { p.Sources = true }), false},
		"cites without receipts":      {published(func(p *dispute.Published) { p.Cites = []string{bob} }), false},
		"cites in disorder": {published(func(p *dispute.Published) {
			p.Receipts, p.Cites = []string{hashOf(1), hashOf(2)}, []string{carol, bob}
		}), false},
		"cites nobody": {published(func(p *dispute.Published) {
			p.Receipts, p.Cites = []string{hashOf(1)}, []string{"x"}
		}), false},
		"final too early":        {final(24*3600-1, "sig"), false},
		"final":                  {final(24*3600, "sig"), true},
		"final, of nothing":      {final(24*3600, "other"), false},
		"a violation":            {violation(bob, "rate"), true},
		"a violation of no rule": {violation(bob, "malicious"), false},
		"a violation of nobody":  {violation("bob", "rate"), false},
		"looking at nothing":     {reviewing(dispute.DisputeID(hashOf(1))), false},
		"looking at an id":       {reviewing("dsp_"), false},
		"looking at it":          {reviewing(open), true},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := dispute.Replay(n.log)
			check.Must(t, err)
			log := b.Log()
			_, would := b.Next(c.entry)
			_, err = b.Add(c.entry)
			if (err == nil) != c.ok || (would == nil) != c.ok {
				t.Errorf("Next: %v, Add: %v", would, err)
			}
			if changed := b.Log() != log; changed != c.ok {
				t.Errorf("the log changed: %t", changed)
			}
		})
	}
	v := violation(bob, "rate")
	b, err := dispute.Replay(n.log)
	check.Must(t, err)
	next, err := b.Next(v)
	check.Must(t, errors.Join(err, b.Take(next)))
	if log := b.Log(); b.Take(next) == nil || b.Log() != log {
		t.Error("a step is taken after the log has gone on")
	}
	if _, err := dispute.Replay(append(slices.Clone(n.log), v, v)); err == nil ||
		!strings.Contains(err.Error(), "entry 4") {
		t.Errorf("one violation twice: %v", err)
	}
	f := final(24*3600, "sig")
	if _, err := dispute.Replay(append(slices.Clone(n.log), f, f)); err == nil {
		t.Error("final twice")
	}
}

func TestTimeNeverFalls(t *testing.T) {
	n := newNode(t).publish(alice, "sig").sleep(-time.Minute).publish(bob, "sig2")
	check.WantEqual(t, n.log[1].At, begin)
	check.WantEqual(t, n.book.Time(n.now), begin)
}

func TestFinalSignalsAreSmall(t *testing.T) {
	n := newNode(t)
	n.publishAs(n.resting(alice, "sig"), func(p *dispute.Publication) { p.Cites = []string{carol} })
	n.sleep(24*time.Hour - time.Second)
	check.WantEqual(t, n.book.Closing(n.now, 9), []dispute.Waiting(nil))
	n.sleep(time.Second).finalise()
	s, _ := n.book.Signal("sig")
	check.WantEqual(t, len(s.Receipts)+len(s.Cites), 0)
	of := contractOf(bob, "c", "sig", n.now.Unix())
	of.Contract.ChallengeType = dispute.TypeTiming
	_, err := n.file(of)
	check.WantCode(t, err, "dispute_closed")
	check.WantEqual(t, n.violations(bob), []string{dispute.RuleWindow})
}

func random(t testing.TB, seed uint64, agents []string, name string) *node {
	r := rand.New(rand.NewPCG(seed, 21))
	n := newNode(t)
	signals := []string{}
	for step := range 150 {
		n.sleep(time.Duration(r.IntN(4)) * time.Hour) // so that entries of one time meet
		one, other := agents[r.IntN(len(agents))], agents[r.IntN(len(agents))]
		switch r.IntN(6) {
		case 0:
			id := fmt.Sprint(name, step)
			n.publish(one, id)
			signals = append(signals, id)
		case 1, 2:
			if len(signals) > 0 {
				f := contractOf(one, fmt.Sprint(name, "c", step), signals[r.IntN(len(signals))], n.now.Unix())
				f.Contract.ReasoningTrace = fmt.Sprint("why ", r.IntN(3))
				_, _ = n.file(f)
			}
		case 3:
			_, _ = n.file(
				challengeOf(one, other, []string{"timing", "consistency", "general"}[r.IntN(3)], hashOf(one, r.IntN(3))))
		case 4:
			n.finalise()
		default:
			for _, id := range n.unresolved() {
				d, _ := n.book.Dispute(id)
				switch {
				case d.Type != dispute.TypeGeneral && r.IntN(2) == 0:
					n.end(id, []string{wins, loses, nobody}[r.IntN(3)])
				case n.book.Late(id, n.now):
					n.enter(n.book.Expire(id, n.now))
				}
			}
		}
	}
	return n
}

func replayed(t testing.TB, log []dispute.Entry) *node {
	t.Helper()
	n := newNode(t)
	for _, e := range log {
		n.enter(e)
	}
	return n
}

func state(t testing.TB, n *node, agents []string) string {
	b := n.book
	all := map[string]any{"unresolved": n.unresolved(), "accounts": n.accounts}
	for _, id := range agents {
		all["standing of "+id] = b.Standing(id, time.Unix(begin-1, 0), time.Unix(0, 0))
	}
	for _, e := range n.log {
		switch {
		case e.Signal != nil:
			s, ok := b.Signal(e.Signal.SignalID)
			s.Number = 0
			all["signal "+e.Signal.SignalID] = fmt.Sprintf("%+v %t", s, ok)
		case e.Opened != nil:
			d, ok := b.Dispute(e.Opened.DisputeID)
			d.Log, d.Number = accrual.Log{}, 0
			all[e.Opened.DisputeID] = fmt.Sprintf("%+v %t", d, ok)
		}
	}
	return canonical(t, all)
}

var everybody = []string{alice, anna, bob, carol}

func TestLogIsATree(t *testing.T) {
	check.WantEqual(t, dispute.NewBook().Log(), accrual.Log{Head: evidence.HashBytes(nil)})
	n := newNode(t).publish(alice, "one")
	leaf := func(e dispute.Entry) string {
		raw, err := e.Encode()
		check.Must(t, err)
		return evidence.HashBytes(append([]byte{0}, raw...))
	}
	check.WantEqual(t, n.book.Log(), accrual.Log{Entries: 1, Head: leaf(n.log[0])})
	n.publish(alice, "two")
	both, err := hex.DecodeString("01" + leaf(n.log[0]) + leaf(n.log[1]))
	check.Must(t, err)
	check.WantEqual(t, n.book.Log(), accrual.Log{Entries: 2, Head: evidence.HashBytes(both)})
}

func TestReplay(t *testing.T) {
	resolved := 0
	for seed := range uint64(15) {
		n := random(t, seed, everybody, "s")
		again, err := dispute.Replay(n.log)
		check.Must(t, err)
		check.WantEqual(t, again.Log(), n.book.Log())
		if want, got := state(t, n, everybody), state(t, replayed(t, n.log), everybody); got != want {
			t.Fatalf("seed %d:\n%s\nand again\n%s", seed, want, got)
		}
		for id, entries := range n.accounts { // every entry that a dispute brings is one that an agent's log takes
			agent, err := accrual.ParseAgent(id)
			check.Must(t, err)
			_, err = accrual.Replay(agent, entries, hashOf("formulas"))
			check.Must(t, err)
		}
		for _, e := range n.accounts[alice] {
			if e.Raised != nil || e.Dispute != nil && e.Dispute.Outcome != "" {
				resolved++
			}
		}
	}
	if resolved < 60 {
		t.Errorf("only %d disputes of one agent ended", resolved)
	}
}

func TestOrderOfStrangers(t *testing.T) {
	for seed := range uint64(8) {
		one, other := random(t, seed, []string{alice, bob}, "s"),
			random(t, seed+1000, []string{carol, agentOf("d", "agent:dan")}, "t")
		r := rand.New(rand.NewPCG(seed, 3))
		all := append(slices.Clone(one.log), other.log...)
		everybody := []string{alice, bob, carol, agentOf("d", "agent:dan")}
		states, heads := map[string]bool{}, map[string]bool{}
		for range 4 {
			mixed := []dispute.Entry{}
			for i, j := 0, 0; i+j < len(all); { // by their times; of one time in any order
				a, c := one.log[i:], other.log[j:]
				if len(c) == 0 || len(a) > 0 && (a[0].At < c[0].At || a[0].At == c[0].At && r.IntN(2) == 0) {
					mixed, i = append(mixed, a[0]), i+1
				} else {
					mixed, j = append(mixed, c[0]), j+1
				}
			}
			n := replayed(t, mixed)
			states[state(t, n, everybody)] = true
			heads[n.book.Log().Head] = true
		}
		if len(states) != 1 || len(heads) < 2 {
			t.Fatalf("seed %d: %d states, %d logs", seed, len(states), len(heads))
		}
	}
}

func TestNobodyElse(t *testing.T) {
	for seed := range uint64(8) {
		n := random(t, seed, everybody[:3], "s")
		if _, ok := n.accounts[carol]; ok {
			t.Error("an agent that nobody disputes has entries")
		}
		if got := slices.Sorted(maps.Keys(n.accounts)); slices.Contains(got, carol) {
			t.Error(got)
		}
	}
}

// FuzzParseEntry: a parsed entry is encoded as it was.
func FuzzParseEntry(f *testing.F) {
	for _, e := range random(f, 1, everybody, "s").log[:40] {
		raw, err := e.Encode()
		check.Must(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := dispute.ParseEntry(raw)
		if err != nil {
			return
		}
		again, err := e.Encode()
		if err != nil || string(again) != string(raw) {
			t.Errorf("%q is written as %q, %v", raw, again, err)
		}
		b := dispute.NewBook()
		if _, err := b.Add(e); err != nil && b.Log() != dispute.NewBook().Log() {
			t.Error("a refused entry changes the log")
		}
	})
}

func TestParseEntry(t *testing.T) {
	raw := `{"at":1,"final":{"signal_id":"a"}}`
	if _, err := dispute.ParseEntry([]byte(raw)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing": "", "a space": raw + " ", "another order": `{"final":{"signal_id":"a"},"at":1}`,
		"an unknown member": `{"at":1,"final":{"signal_id":"a"},"x":1}`,
		"null":              `{"at":1,"final":{"signal_id":"a"},"opened":null}`,
		"too long":          strings.Repeat(" ", 70_000) + raw,
	} {
		if e, err := dispute.ParseEntry([]byte(text)); err == nil {
			t.Errorf("%s is taken as %+v", name, e)
		}
	}
}
