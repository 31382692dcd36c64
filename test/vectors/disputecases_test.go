package vectors_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/strategy"
)

type court struct {
	book *dispute.Book
	now  time.Time
	log  []dispute.Entry
	out  []disputeVector
}

func newCourt() *court { return &court{book: dispute.NewBook(), now: time.Unix(at, 0)} }

func (c *court) enter(e dispute.Entry) *court {
	must(c.book.Add(e))
	c.log = append(c.log, e)
	return c
}

func (c *court) wait(d time.Duration) *court {
	c.now = c.now.Add(d)
	return c
}

func (c *court) signal(agent, id, horizon string, receipts ...string) dispute.Signal {
	s := dispute.Signal{SignalID: id, AgentID: agent, Statement: "It will rain.", Horizon: horizon,
		Timestamp: c.now.Unix()}
	if len(receipts) > 0 {
		s.RestsOn = &dispute.RestsOn{Receipts: receipts}
	}
	return s
}

func (c *court) contract(challenger, id, signal string) dispute.Filing {
	return dispute.Filing{Contract: &dispute.Contract{
		ChallengeID: id, OriginalSignalID: signal, ChallengerAgentID: challenger, CounterClaim: "It will not.",
		ReasoningTrace: "Because of " + id, Timestamp: c.now.Unix(),
	}}
}

func accuse(challenger, target, kind string, receipts ...int) dispute.Filing {
	out := dispute.Filing{Challenge: &dispute.Challenge{ChallengerID: challenger, TargetID: target, ChallengeType: kind}}
	for _, n := range receipts {
		out.Challenge.TargetReceipts = append(out.Challenge.TargetReceipts, receiptHash(n))
	}
	return out
}

func (c *court) come(name, verdict string, document any, edits ...func(*filingJSON)) *court {
	f := filingJSON{At: c.now.Unix(), Document: compact(document), Registered: longAgo}
	if d, ok := document.(dispute.Filing); ok {
		f.Document = compact(d.Document())
		target := ""
		if d.Challenge != nil {
			target = d.Challenge.TargetID
		} else if s, ok := c.book.Signal(d.Contract.OriginalSignalID); ok {
			target = s.Agent
		}
		for _, hash := range c.book.Named(d) {
			f.Receipts = append(f.Receipts, knownJSON{Hash: hash, Agent: target, Session: "ses_1", At: c.now.Unix()})
		}
	}
	for _, edit := range edits {
		edit(&f)
	}
	v := disputeVector{Name: "in: " + name, Log: slices.Clone(c.log), Filing: &f, Verdict: verdict}
	var err error
	v.ID, v.Entry, err = v.file()
	if got := codeOf(err); got != verdict {
		panic(name + ": " + got)
	}
	if name != "" {
		c.out = append(c.out, v)
	}
	if v.Entry != nil {
		c.enter(must(dispute.ParseEntry(v.Entry)))
	}
	return c
}

func (c *court) published(s dispute.Signal, found dispute.Publication) *court {
	found.Signal = s
	return c.enter(*must(c.book.Publish(dispute.DefaultRules, found, c.now)))
}

func (c *court) opened(document any, edits ...func(*filingJSON)) *court {
	return c.come("", "ok", document, edits...)
}

func (c *court) end(outcome string) *court {
	var id string
	for _, e := range c.log {
		if e.Opened != nil {
			id = e.Opened.DisputeID
		}
	}
	return c.enter(c.book.End(id,
		dispute.Finding{Outcome: outcome, Reason: "because", Malicious: outcome == accrual.TargetWins && len(c.log)%2 == 0},
		c.now))
}

func (c *court) finalise() *court {
	for _, one := range c.book.Closing(c.now, math.MaxInt) {
		c.enter(c.book.Finalise(one.ID, c.now))
	}
	return c
}

func (c *court) state(name string) *court {
	c.out = append(c.out,
		disputeVector{Name: "log: " + name, Log: slices.Clone(c.log), State: json.RawMessage(stateOf(c.log)), Verdict: "ok"})
	return c
}

func disputeLogs() (out []disputeVector) {
	signal, contract := newCourt().signal, newCourt().contract
	timing := func(receipts ...int) dispute.Filing { return accuse(workerB, workerA1, "timing", receipts...) }
	const wins, loses, nobody = accrual.ChallengerWins, accrual.TargetWins, accrual.Inconclusive
	add := func(c *court) { out = append(out, c.out...) }
	registered := func(when int64) func(*filingJSON) { return func(f *filingJSON) { f.Registered = when } }

	add(newCourt().state("nothing").come("a signal", "ok", signal(workerA1, "sig-1", "short")).state("a signal").
		come("a signal with a long horizon, on receipts", "ok", signal(workerA1, "sig-2", "long", receiptHash(1))).
		come("the same signal again", "ok", signal(workerA1, "sig-1", "short")).
		come("another signal of the same id", "id_taken", signal(workerA1, "sig-1", "long")).
		come("a signal of another's id", "id_taken", signal(workerB, "sig-1", "short")).wait(301*time.Second).
		come("a signal that is too old", "clock_skew", signal(workerA1, "sig-3", "short")).wait(-time.Second).
		come("a signal that is just not too old", "ok", signal(workerA1, "sig-3", "short"), registered(0)).
		wait(-602*time.Second).come("a signal of the future", "clock_skew", signal(workerA1, "sig-4", "short")))

	known := dispute.By{Registered: time.Unix(longAgo, 0)}
	add(newCourt().published(signal(workerA1, "sig-1", "short", receiptHash(1)),
		dispute.Publication{By: known, Observed: true, Sources: true}).published(
		signal(workerB, "sig-2", "short", receiptHash(1), receiptHash(2)),
		dispute.Publication{By: known, Cites: []string{workerA1, workerC}}).published(
		signal(workerB, "sig-3", "short", receiptHash(1)),
		dispute.Publication{Cites: []string{workerA1}}).published(signal(workerA2, "sig-4", "short", receiptHash(1)),
		dispute.Publication{Cites: []string{workerA1}}).wait(24 * time.Hour).finalise().state(
		"what was found of signals, and who is cited"))

	add(newCourt().opened(signal(workerA1, "sig-2", "short")).opened(signal(workerA1, "sig", "short")).
		come("a contract", "ok", contract(workerB, "c-1", "sig")).state("a pending dispute").
		come("the same contract again", "ok", contract(workerB, "c-1", "sig")).
		come("another contract of the same id", "id_taken", contract(workerB, "c-1", "sig-2")).
		come("another's contract of the same id", "ok", contract(workerA2, "c-1", "sig-2")).
		come("a contract about nothing", "not_found", contract(workerB, "c-2", "other")).
		come("a contract about one's own signal", "dispute_refused", contract(workerA1, "c-2", "sig")).
		come("a contract of nobody who is registered", "dispute_refused", contract(workerC, "c-2", "sig"), registered(0)).
		come("a contract of who was registered with the signal", "dispute_refused", contract(workerC, "c-2", "sig"),
			registered(at)).
		come("a contract of who was registered a week before", "ok", contract(workerC, "c-2", "sig"), registered(at-week)).
		come("a contract of the same owner", "ok", contract(workerA2, "c-3", "sig")).
		come("a contract of an agent elsewhere", "ok", contract(away, "c-4", "sig"), registered(at-week)).
		come("a second dispute of a new agent", "dispute_rate", contract(away, "c-5", "sig"), registered(at-week)).
		state("a violation").
		come("the same violation again", "dispute_rate", contract(away, "c-5", "sig"), registered(at-week)))

	c := newCourt().opened(signal(workerA1, "sig", "short")).opened(contract(workerB, "c-1", "sig")).
		wait(24*time.Hour - time.Second)
	c.come("in the last second of the window", "ok", c.contract(workerC, "c-2", "sig")).wait(time.Second)
	c.come("when the window has closed", "dispute_closed", c.contract(workerA2, "c-3", "sig"))
	c.finalise().state("a final signal").
		come("when the signal is final", "dispute_closed", c.contract(workerA2, "c-4", "sig"))
	add(c)

	same := func(edit func(*dispute.Challenge), kind string, receipts ...int) dispute.Filing {
		f := accuse(workerB, workerA1, kind, receipts...)
		edit(f.Challenge)
		return f
	}
	words := func(c *dispute.Challenge) { c.Evidence = "Look." }
	none := func(*dispute.Challenge) {}
	c = newCourt().come("a challenge", "ok", timing(1, 2)).come("the same challenge again", "ok", timing(1, 2)).
		come("receipts in another order", "dispute_closed", same(none, "timing", 2, 1)).
		come("other words where receipts decide", "dispute_closed", same(words, "timing", 1, 2)).
		come("another type", "ok", same(none, "consistency", 1, 2)).
		come("fewer receipts", "ok", same(none, "timing", 1)).come("an arbiter's", "ok", same(none, "general", 1)).
		come("other words where an arbiter decides", "ok", same(words, "general", 1))
	add(c.state("two disputes that say the same"))
	c = newCourt().opened(timing(1)).end(nobody)
	add(c.come("what nobody has won, again", "ok", same(words, "timing", 1)))
	c = newCourt().opened(timing(1)).wait(time.Second).end(loses).wait(time.Second)
	add(c.come("what the challenger has lost, again", "dispute_closed", same(words, "timing", 1)))

	edit := func(change func(*knownJSON)) func(*filingJSON) {
		return func(f *filingJSON) { change(&f.Receipts[0]) }
	}
	add(newCourt().
		come("receipts that nobody has", "dispute_receipts", timing(1), func(f *filingJSON) {
			f.Receipts = nil
		}).come("receipts of another agent", "dispute_receipts", timing(1), edit(func(k *knownJSON) { k.Agent = workerC })).
		come("of an agent that was registered after them", "dispute_refused", timing(1), registered(at)).
		opened(signal(workerA1, "sig", "short")).
		come("timing of a signal without receipts", "dispute_receipts", typed(contract(workerB, "c", "sig"), "timing")))
	c = newCourt().opened(signal(workerA1, "sig", "short", receiptHash(1), receiptHash(2)))
	add(c.come("timing of a signal with receipts", "ok", typed(c.contract(workerB, "c", "sig"), "timing")))
	c = newCourt().opened(timing(1)).end(wins)
	add(c.come("what came before a lost dispute", "dispute_receipts", accuse(workerC, workerA1, "timing", 1)).
		wait(time.Second).come("what came after it", "ok", accuse(workerC, workerA1, "timing", 1)))

	c = newCourt()
	for i := range 15 {
		c.opened(timing(i))
	}
	add(c.come("one more than the highest standing gives", "dispute_rate", timing(99)).
		wait(24*time.Hour-time.Second).come("a second too early", "dispute_rate", timing(98)).wait(time.Second).
		come("a day later", "ok", timing(97)))
	c = newCourt().wait(-time.Second).come("a second too early after the registration", "dispute_rate", timing(1),
		registered(at-week)).wait(time.Second).come("a week after the registration", "ok", timing(2), registered(at-week))
	add(c.end(loses).state("the target wins").wait(8*24*time.Hour-time.Second).
		come("a second too early after a lost dispute", "dispute_rate", timing(3), registered(at-week)).wait(time.Second).
		come("eight days after it", "ok", timing(4), registered(at-week)).end(wins).state("the challenger wins, later").
		wait(time.Second).come("and disputes again", "ok", timing(5), registered(at-week)))
	c = newCourt()
	for i := range 2 {
		c.opened(timing(i)).end(loses)
	}
	add(c.state("two lost disputes"))

	add(newCourt().opened(timing(1)).end(wins).state("the challenger wins").wait(time.Hour + time.Second).
		opened(timing(2)).end(wins).state("the challenger wins again: no bonus").wait(time.Second).
		opened(accuse(workerA1, workerB, "timing", 3)).end(wins).state("nor for the other of the two").wait(time.Second).
		opened(accuse(workerC, workerA1, "timing", 4)).end(loses).state("the target wins against another"))
	add(newCourt().opened(timing(1)).end(nobody).state("nobody wins").wait(time.Second).opened(timing(2)).end(loses).
		state("and the bonus comes with the first winner"))
	add(newCourt().opened(accuse(workerA2, workerA1, "timing", 1)).end(wins).wait(time.Second).
		opened(accuse(workerA1, workerA2, "timing", 2)).end(loses).state("disputes within one owner give nothing"))
	add(newCourt().opened(accuse(away, workerA1, "timing", 1)).end(wins).wait(time.Second).
		opened(accuse(workerA1, away, "general", 2)).state("an agent elsewhere gains nothing"))
	// One fault counts once, though the challengers win several disputes.
	fell := func(name string, faults []int, filings ...dispute.Filing) {
		c := newCourt().opened(signal(workerA1, "sig", "short")).opened(signal(workerA1, "sig-2", "short"))
		var ids []string
		for _, f := range filings {
			c.opened(f)
			ids = append(ids, c.log[len(c.log)-1].Opened.DisputeID)
		}
		for i, id := range ids {
			r := dispute.Resolved{DisputeID: id, Resolver: dispute.ResolverRules,
				Finding: dispute.Finding{Outcome: wins, Reason: "because"}}
			if faults[i] == 0 {
				r.Resolver, r.Decisions = dispute.ResolverArbiter, []string{receiptHash(99)}
				c.enter(dispute.Entry{At: c.now.Unix(), Voted: &dispute.Voted{DisputeID: id, Arbiter: "arbiter:v1",
					Decision: receiptHash(99), Outcome: wins, Reason: "because"}})
			} else {
				r.Fault = receiptHash(faults[i])
			}
			c.wait(time.Second).enter(dispute.Entry{At: c.now.Unix(), Resolved: &r})
		}
		add(c.wait(24 * time.Hour).finalise().state(name))
	}
	fell("one part of a session, by two", []int{9, 9, 9}, timing(1), accuse(workerC, workerA1, "timing", 2),
		accuse(workerB, workerA2, "timing", 3))
	fell("two parts", []int{9, 8}, timing(1), accuse(workerC, workerA1, "timing", 2))
	fell("one signal, by two", []int{0, 0}, contract(workerB, "c-1", "sig"), contract(workerC, "c-2", "sig"))
	fell("two signals", []int{0, 0}, contract(workerB, "c-1", "sig"), contract(workerC, "c-2", "sig-2"))
	fell("two signals that rest on one part", []int{9, 9}, pointed(contract(workerB, "c-1", "sig"), 1),
		pointed(contract(workerC, "c-2", "sig-2"), 2))
	fell("a signal and what it rests on", []int{9, 9, 0}, pointed(contract(workerB, "c-1", "sig"), 1),
		accuse(workerC, workerA1, "timing", 1), contract(workerC, "c-2", "sig"))
	fell("an arbiter's about the same receipts, and about others", []int{0, 0, 0}, accuse(workerB, workerA1, "general", 1),
		accuse(workerC, workerA1, "general", 1), accuse(workerC, workerA1, "general", 2))
	c = newCourt().opened(accuse(workerB, workerA1, "general", 1))
	c.enter(c.book.Review(c.log[0].Opened.DisputeID, c.now)).state("somebody looks at it").wait(72 * time.Hour)
	add(c.enter(c.book.Expire(c.log[0].Opened.DisputeID, c.now)).state("nobody has decided in time"))
	add(appeals())

	c = newCourt().opened(timing(1)).wait(365 * 24 * time.Hour)
	c.opened(c.signal(workerA1, "sig", "short")).opened(accuse(workerB, workerA1, "general", 2)).
		state("a wrong clock").wait(-364 * 24 * time.Hour)
	c.enter(dispute.Entry{At: c.now.Unix(), SetBack: &dispute.SetBack{Token: "e.e.e"}}).state("it is set back")
	add(c.come("a dispute after that", "ok", timing(3)).wait(24 * time.Hour).finalise().
		state("a window that the wrong clock opened"))

	c = newCourt().opened(signal(workerA1, "sig", "short"))
	c.opened(pointed(c.contract(workerB, "c-1", "sig"), 1)).end(loses).
		opened(pointed(c.contract(workerB, "c-2", "sig"), 2)).end(wins).
		opened(pointed(c.contract(workerC, "c-3", "sig"), 3)).state("resolved, and provisional")
	c.wait(24 * time.Hour).finalise().state("the window closes: what was resolved counts").wait(time.Hour).end(wins).
		state("what is resolved afterwards counts at once")
	add(c.wait(30 * 24 * time.Hour).opened(accuse(workerC, workerA2, "timing", 1)).state(
		"nothing is forgotten"))

	c = newCourt()
	for i, agent := range []string{workerA1, workerA2, away} {
		c.enter(dispute.Entry{At: at,
			Signal: &dispute.Published{SignalID: fmt.Sprint("sig-", i), Agent: agent, Document: receiptHash(i), Horizon: "short",
				Written: at - int64(299*i), Closes: at + 60, Basis: []string{"observed", "declared"}[i%2],
				Receipts: []string{receiptHash(1), receiptHash(2), receiptHash(3)}, Sources: i%2 == 0,
				Cites: []string{workerA2, workerB, workerC}, Registered: int64(i)}})
	}
	add(c.wait(time.Minute).finalise().state("signals that cite other agents"))
	for i := range out {
		out[i].Name = fmt.Sprintf("%s (%d)", out[i].Name, i)
	}
	return out
}

func typed(f dispute.Filing, kind string) dispute.Filing {
	f.Contract.ChallengeType = kind
	return f
}

func pointed(f dispute.Filing, receipt int) dispute.Filing {
	f.Contract.TargetReceipts = []string{receiptHash(receipt)}
	return typed(f, "timing")
}

func working(n int) (all []*interaction.Receipt) {
	o, when := interaction.Observed, int64(at)*1000
	for i := range n {
		when += 1000
		r := &interaction.Receipt{
			Outcome: interaction.OutcomeCompleted, EventID: "evt_1", RuntimeID: "worker-1",
			Timing: interaction.Timing{RequestReceived: when, LLMStart: when + 1, LLMEnd: when + 5001},
			Session: interaction.SessionTotals{OpenedMS: at * 1000, Calls: int64(i + 1), CallsObserved: int64(i + 1),
				BytesOut: int64(i + 1), BytesOutObserved: int64(i + 1)},
			Model: &interaction.ModelCall{Host: "api.models.example:443", Model: "model-1",
				ToolCalls: []interaction.ToolCall{{ID: tagOf("call", i), Tool: "search"}}},
		}
		r.Model.Figures = interaction.ModelFigures{Duration: o(5000), FirstDelta: o(400), ToolCallsMade: o(1)}
		if i > 0 {
			r.Model.Figures.Turnaround, r.Model.ReturnedCalls = o(995), []string{tagOf("call", i-1)}
		}
		when += 5002
		r.IssuedAt = when/1000 + 1
		all = append(all, r)
	}
	last := all[n-1]
	end := &interaction.Receipt{Outcome: interaction.OutcomeCompleted, EventID: "evt_1", RuntimeID: "worker-1",
		Session: last.Session, Closing: &interaction.Closing{Reason: interaction.ClosedEnded}}
	end.IssuedAt = last.IssuedAt
	return append(all, end)
}

type trialCase struct {
	receipts   []*interaction.Receipt
	held       func(number int) bool
	others     []int64
	challenges []autonomy.Challenge
	forged     []string
	judged     []string
}

func (c trialCase) holding(held func(number int) bool) trialCase { c.held = held; return c }

func (c trialCase) beside(numbers ...int64) trialCase { c.others = numbers; return c }

func (c trialCase) withForged() trialCase { c.forged = []string{receiptHash(77)}; return c }

func (c trialCase) counted(receipt int) trialCase {
	c.judged = []string{receiptHash(receipt)}
	return c
}

func (c trialCase) open() trialCase { c.receipts = c.receipts[:len(c.receipts)-1]; return c }

func (c trialCase) trial(kind string) *trialJSON {
	t, s := &trialJSON{Type: kind, Forged: c.forged, Judged: c.judged},
		sessionJSON{Challenges: c.challenges, Receipts: []heldJSON{}}
	previous := ""
	for i, r := range c.receipts {
		if r.Chain.SequenceNumber == 0 {
			r.Chain = interaction.ChainLink{SessionID: "ses_1", SequenceNumber: int64(i + 1), PreviousReceiptHash: previous}
		}
		previous = receiptHash(i + 1)
		if c.held == nil || c.held(i+1) {
			s.Receipts = append(s.Receipts, heldJSON{previous, bare(r)})
		}
	}
	t.Receipts = []string{previous}
	for i, number := range c.others {
		s.Others = append(s.Others, heldJSON{receiptHash(1000 + i),
			bare(&interaction.Receipt{Chain: interaction.ChainLink{SessionID: "ses_1", SequenceNumber: number}})})
	}
	t.Sessions = []sessionJSON{s}
	return t
}

func (c trialCase) planned(edit func(*strategy.Strategy)) trialCase {
	s := strategy.Strategy{Tools: []string{"search"}, Hosts: []string{"api.models.example:443"}, Model: "model-1",
		Calls: strategy.Calls{Min: 1, Max: 100}}
	edit(&s)
	ch := autonomy.Challenge{Nonce: "nonce", Issued: at * 1000, Committed: at*1000 + 1, Salt: "c2l4dGVlbiBieXRlcywgMQ",
		Strategy: &s}
	ch.Commitment = must(strategy.Commitment(ch.Nonce, ch.Salt, s))
	for _, r := range c.receipts {
		r.Challenge = &interaction.ChallengeRef{ChallengeNonce: ch.Nonce, CommitmentHash: ch.Commitment}
	}
	c.challenges = append(c.challenges, ch)
	return c
}

func (c trialCase) probed(n, differ int) trialCase {
	ch := autonomy.Challenge{Nonce: "probes", Issued: at * 1000}
	for i := range n {
		pair := [2]string{fmt.Sprint("p", i), fmt.Sprint("q", i)}
		ch.Probes = append(ch.Probes, pair)
		for j, id := range pair {
			answer := tagOf("answer", i)
			if i < differ && j == 1 {
				answer = tagOf("another", i)
			}
			c.receipts[2*i+j].Model.Probe = &interaction.Probe{ID: id, Answer: answer}
		}
	}
	c.challenges = append(c.challenges, ch)
	return c
}

func trialVectors() (out []disputeVector) {
	add := func(name, kind string, c trialCase) {
		v := disputeVector{Name: kind + ": " + name, Trial: c.trial(kind), Verdict: "ok"}
		v.Early, v.Late = v.Trial.judge()
		out = append(out, v)
	}
	edited := func(number int, edit func(*interaction.Receipt)) trialCase {
		c := trialCase{receipts: working(6)}
		edit(c.receipts[number-1])
		return c
	}
	figures := func(number int, edit func(*interaction.ModelFigures)) trialCase {
		return edited(number, func(r *interaction.Receipt) { edit(&r.Model.Figures) })
	}
	whole := func() trialCase { return trialCase{receipts: working(6)} }
	o, anything := interaction.Observed, func(*strategy.Strategy) {}
	duration := func(receipt int, ms int64) trialCase {
		return figures(receipt, func(f *interaction.ModelFigures) { f.Duration = o(ms) })
	}
	for _, kind := range []string{"timing", "consistency", "knowledge"} {
		add("a session that works", kind, whole().probed(3, 0))
		add("a session that goes on", kind, whole().probed(3, 0).open())
		add("receipts that the node does not hold", kind, whole().probed(3, 0).holding(func(n int) bool { return n < 5 }))
		add("a receipt that the node has lost", kind, whole().holding(func(n int) bool { return n != 3 }))
		add("two chains", kind, whole().probed(3, 0).beside(3))
		add("forged evidence", kind, whole().probed(3, 0).withForged())
		add("a receipt after the end", kind, whole().beside(9))
		add("a receipt that is not there yet", kind, whole().open().beside(9))
	}
	for _, by := range []int64{0, 1} {
		is := []string{"as much as clocks differ", "more than clocks differ"}[by]
		add("a duration that is longer than its call, by "+is, "timing", duration(6, 35_000+by))
		add("an answer that begins after its end, by "+fmt.Sprint(by), "timing",
			figures(6, func(f *interaction.ModelFigures) {
				f.FirstDelta = o(5000 + by)
			}))
		add("a turnaround that is longer than the session, by "+is, "timing", figures(2, func(f *interaction.ModelFigures) {
			f.Turnaround = o(7003 + 30_000 + by)
		}))
		overlap := whole()
		third := overlap.receipts[2].Timing
		overlap.receipts[1].Timing.LLMStart, overlap.receipts[1].Timing.LLMEnd = third.RequestReceived-29_999-by,
			third.LLMStart+30_000
		overlap.receipts[1].Model.Figures.Duration = interaction.NotMeasured
		add("a call that was open where none is said to be, by "+is, "timing", overlap)
		early := whole()
		t := &early.receipts[1].Timing
		t.RequestReceived, t.LLMStart, t.LLMEnd = t.RequestReceived-36_002-by, t.LLMStart-36_002-by, t.LLMEnd-36_002-by
		early.receipts[1].Model.Figures.Turnaround = interaction.NotMeasured
		add("a result before its call, by "+is, "timing", early)
		late := whole().planned(anything)
		late.challenges[0].Issued = late.receipts[0].IssuedAt*1000 + 150_000 + by
		add("a challenge before its issue, by "+is, "timing", late)
	}
	other := func(r *interaction.Receipt) { r.Model.ReturnedCalls = []string{tagOf("other", 1)} }
	for _, upTo := range []int{2, 3} {
		is := fmt.Sprintf(", and %d have counted", upTo)
		add("the third receipt takes too long"+is, "timing", duration(3, 99_000).counted(upTo))
		add("the third receipt names another event"+is, "consistency", edited(3, func(r *interaction.Receipt) {
			r.EventID = "evt_2"
		}).counted(upTo+1))
		add("the third receipt brings a result without its call"+is, "consistency", edited(3, other).counted(upTo))
		add("a call that was made before"+is, "consistency", whole().counted(upTo))
		add("the third receipt calls what the strategy does not allow"+is, "consistency",
			edited(3, func(r *interaction.Receipt) {
				r.Model.ToolCalls[0].Tool = "read"
			}).planned(anything).counted(upTo))
		add("questions that were answered both ways"+is, "knowledge", trialCase{receipts: working(8)}.probed(4, 4).
			counted(upTo))
	}
	add("a fork that has counted", "consistency", whole().beside(3).counted(1000))
	add("another fork than the one that has counted", "consistency", whole().beside(3, 3).counted(1000))
	add("forged evidence beside what is found", "timing", duration(2, 99_000).withForged())
	for name, edit := range map[string]func(*interaction.Receipt){
		"another receipt before it": func(r *interaction.Receipt) {
			r.Chain = interaction.ChainLink{SessionID: "ses_1", SequenceNumber: 3, PreviousReceiptHash: otherHash}
		},
		"another event":              func(r *interaction.Receipt) { r.EventID = "evt_2" },
		"another runtime":            func(r *interaction.Receipt) { r.RuntimeID = "worker-2" },
		"another opening":            func(r *interaction.Receipt) { r.Session.OpenedMS++ },
		"an earlier time":            func(r *interaction.Receipt) { r.IssuedAt -= 60 },
		"fewer calls":                func(r *interaction.Receipt) { r.Session.Calls = 1 },
		"fewer bytes":                func(r *interaction.Receipt) { r.Session.BytesOut = 1 },
		"fewer calls that were seen": func(r *interaction.Receipt) { r.Session.CallsObserved = 1 },
		"fewer bytes that were seen": func(r *interaction.Receipt) { r.Session.BytesOutObserved = 1 },
		"a receipt follows the end":  func(r *interaction.Receipt) { r.Closing = &interaction.Closing{Reason: "ended"} },
	} {
		add(name, "consistency", edited(3, edit))
	}
	add("a result without its call", "consistency", edited(3, other))
	add("a result without its call, in a session that goes on", "consistency", edited(3, other).open())
	unknown := func(edit func(*interaction.ModelCall)) trialCase {
		return edited(3, func(r *interaction.Receipt) { other(r); edit(r.Model) })
	}
	add("a result where more calls were made than are named", "consistency", unknown(func(m *interaction.ModelCall) {
		m.Figures.ToolCallsMade = o(2)
	}))
	add("a result where the calls were not counted", "consistency", unknown(func(m *interaction.ModelCall) {
		m.Figures.ToolCallsMade = interaction.NotMeasured
	}))
	add("a result where a call has no id", "consistency", unknown(func(m *interaction.ModelCall) {
		m.ToolCalls[0].ID = ""
	}))
	for name, edit := range map[string]func(*strategy.Strategy){
		"a strategy that was kept":       anything,
		"a tool that it does not allow":  func(s *strategy.Strategy) { s.Tools = []string{"read"} },
		"a host that it does not allow":  func(s *strategy.Strategy) { s.Hosts = []string{"o:443"} },
		"a model that it does not allow": func(s *strategy.Strategy) { s.Model = "model-2" },
		"more calls than it allows":      func(s *strategy.Strategy) { s.Calls.Max = 5 },
		"fewer calls than it allows":     func(s *strategy.Strategy) { s.Calls.Min = 7 },
	} {
		add(name, "consistency", whole().planned(edit))
	}
	add("fewer calls than it allows, so far", "consistency", whole().
		planned(func(s *strategy.Strategy) { s.Calls.Min = 7 }).open())
	hidden := whole().planned(anything)
	hidden.challenges[0].Strategy, hidden.challenges[0].Salt = nil, ""
	add("a strategy that is not revealed", "consistency", hidden)
	wrong := whole().planned(func(s *strategy.Strategy) { s.Model = "model-2" })
	wrong.challenges[0].Salt = "c2l4dGVlbiBieXRlcywgMg"
	add("a strategy that is not the committed one", "consistency", wrong)
	unseen := whole().planned(anything)
	unseen.receipts[3].Model.ToolCalls[0].Tool, unseen.receipts[4].Model.Figures.ToolCallsMade = "",
		interaction.NotMeasured
	add("tools that nobody saw", "consistency", unseen)
	for differ := range 4 {
		add(fmt.Sprint(differ, " of 3 questions answered both ways"), "knowledge", whole().probed(3, differ))
	}
	add("2 of 4 questions answered both ways", "knowledge", trialCase{receipts: working(8)}.probed(4, 2))
	add("3 of 3, in a session that goes on", "knowledge", whole().probed(3, 3).open())
	add("too few questions", "knowledge", whole().probed(2, 2))
	add("no questions", "knowledge", whole())
	slices.SortFunc(out, func(a, b disputeVector) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// appeals are disputes that arbiters decide, and another panel again.
func appeals() *court {
	c := newCourt().opened(newCourt().signal(workerA1, "sig", "short"))
	c.opened(c.contract(workerB, "c-1", "sig"))
	opened := c.log[1].Opened
	decided := func(outcome, resolver string, until int64, votes ...int) *court {
		r := dispute.Resolved{DisputeID: opened.DisputeID, Resolver: resolver, AppealUntil: until,
			Finding: dispute.Finding{Outcome: outcome, Reason: "because"}}
		for _, n := range votes {
			r.Decisions = append(r.Decisions, receiptHash(n))
			c.enter(dispute.Entry{At: c.now.Unix(), Voted: &dispute.Voted{DisputeID: opened.DisputeID,
				Arbiter: fmt.Sprint("arbiter-", n), Decision: receiptHash(n), Outcome: outcome, Reason: "because"}})
		}
		slices.Sort(r.Decisions)
		return c.enter(dispute.Entry{At: c.now.Unix(), Resolved: &r})
	}
	appeal := func(by, against, document string) dispute.Filing {
		return dispute.Filing{Challenge: &dispute.Challenge{ChallengerID: by, TargetID: against, ChallengeType: "appeal",
			TargetReceipts: []string{document}, Evidence: "It was read wrongly."}}
	}
	right := appeal(workerA1, workerB, opened.Document)
	c.come("an appeal before the end", "dispute_closed", appeal(workerB, workerA1, opened.Document)).wait(time.Hour)
	decided(accrual.ChallengerWins, dispute.ResolverArbiter, c.now.Unix()+72*3600, 1, 2).state("two arbiters have decided").
		come("an appeal by the winner", "dispute_refused", appeal(workerB, workerA1, opened.Document)).
		come("an appeal by another agent", "dispute_refused", appeal(workerC, workerB, opened.Document)).
		come("an appeal about another document", "not_found", appeal(workerA1, workerB, receiptHash(1))).
		come("an appeal", "ok", right).state("an appeal").come("the same appeal again", "ok", right).
		wait(24 * time.Hour).finalise().state("an appeal outlives the window")
	return decided(accrual.TargetWins, dispute.ResolverArbiter, 0, 3, 4).state("the appeal is won").
		come("an appeal against that", "dispute_closed", appeal(workerB, workerA1, opened.Document))
}

// The longest registration that counts, and the shortest.
const (
	week    = 7 * 24 * 3600
	longAgo = at - 3*week
)

func (d deployment) disputeTokens() (out []disputeVector) {
	const resolution, decision = "dispute-resolution+jwt", "dispute-decision+jwt"
	c := newCourt().opened(accuse(workerB, workerA1, "timing", 1)).end(accrual.ChallengerWins)
	state, _ := c.book.Dispute(c.log[0].Opened.DisputeID)
	claims, _ := dispute.ResolutionOf(state)
	d.roles[evidence.PurposeArbiter] = d.arbiter()
	payloads := map[string]string{
		resolution: claimsOf(d, dispute.ResolutionKind, claims, 3600),
		decision: claimsOf(d, dispute.DecisionKind,
			dispute.Decision{DisputeID: state.DisputeID, Document: state.Document, Outcome: accrual.TargetWins,
				Reason: "It was forged."}, 3600),
	}
	purposes := map[string]string{resolution: evidence.PurposeAppraiser, decision: evidence.PurposeArbiter}
	add := func(typ, what, verdict string, change map[string]any) {
		out = append(out, disputeVector{Name: typ + ": " + what, Typ: typ,
			Token: d.signed(purposes[typ], typ, payloads[typ], changes{typ: change}), Verdict: verdict})
	}
	by := func(typ, whose, purpose string) {
		out = append(out, disputeVector{Name: typ + ": by " + whose + " key", Typ: typ,
			Token: d.signed(purpose, typ, payloads[typ], nil), Verdict: "key_purpose"})
	}
	for _, typ := range []string{resolution, decision} {
		add(typ, "valid", "ok", nil)
		add(typ, "for another audience", "not_allowed", map[string]any{"aud": "other"})
		add(typ, "an unknown claim", "artifact_malformed", map[string]any{"surprise": 1})
		by(typ, "another role's", evidence.PurposePolicyDecision)
		out = append(out,
			disputeVector{Name: typ + ": too old", Typ: typ, Token: d.signed(purposes[typ], typ, payloads[typ], nil),
				At: at + 303, Verdict: "expired"})
	}
	by(decision, "the registry's", evidence.PurposeSignerCertificate)
	by(resolution, "the arbiter's", evidence.PurposeArbiter)
	add(decision, "malicious", "ok", map[string]any{"malicious": true})
	for _, row := range []struct {
		typ, claim string
		value      any
	}{
		{resolution, "probabilistic", false}, {resolution, "nonHumanIdentityProven", true},
		{resolution, "dispute_id", "dsp_1"}, {resolution, "document", otherHash}, {resolution, "challenger_id", workerA1},
		{resolution, "target_id", "agent:worker-1"}, {resolution, "challenge_type", "general"},
		{resolution, "challenge_type", "other"}, {resolution, "status", "pending"}, {resolution, "outcome", "draw"},
		{resolution, "reason", ""}, {resolution, "resolver", "arbiter"}, {resolution, "resolver", "deadline"},
		{resolution, "resolver", "target"}, {resolution, "malicious", true}, {resolution, "decisions", []string{otherHash}},
		{resolution, "appeal_until", at},
		{resolution, "inputs", []string{"x"}}, {resolution, "inputs", []string{receiptHash(1), receiptHash(1)}},
		{resolution, "opened_at", 0}, {resolution, "resolved_at", at - 1}, {resolution, "signal_id", "a b"},
		{resolution, "log", map[string]any{"entries": 1, "head": otherHash}},
		{resolution, "log", map[string]any{"entries": 2, "head": "x"}}, {resolution, "keyCustody", ""},
		{decision, "dispute_id", "dsp_1"}, {decision, "document", otherHash}, {decision, "outcome", ""},
		{decision, "reason", ""},
	} {
		add(row.typ, fmt.Sprintf("%s is %.70v", row.claim, row.value), "artifact_malformed",
			map[string]any{row.claim: row.value})
	}
	return out
}
