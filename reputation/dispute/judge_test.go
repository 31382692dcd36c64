package dispute_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/strategy"
	"github.com/actionproof/mediator/test/check"
)

type trace struct {
	receipts   []*interaction.Receipt
	challenges []autonomy.Challenge
	closed     bool
	missing    int // from this number on the node does not hold them; 0 for none
	gap        int // the node has lost this one; 0 for none
	others     []*interaction.Receipt
	forged     bool
	unknown    bool     // the dispute names a receipt that is nowhere
	judged     []string // hashes of evidence in a dispute that the target lost
}

func tag(what string, n int) string { return hashOf(what, n)[:32] }

func working(n int) *trace {
	o, at, t := interaction.Observed, int64(1_800_000_000_000), &trace{closed: true}
	for i := range n {
		at += 1000
		r := &interaction.Receipt{
			RequestID: fmt.Sprint("post_", i), Outcome: interaction.OutcomeCompleted, EventID: "evt", RuntimeID: "rt",
			Timing:  interaction.Timing{RequestReceived: at, LLMStart: at + 1, LLMEnd: at + 5001, ResponseSent: at + 5002},
			Session: interaction.SessionTotals{OpenedMS: 1_800_000_000_000, Calls: int64(i + 1), CallsObserved: int64(i + 1)},
			Model: &interaction.ModelCall{Host: "m:443", Model: "model-1",
				ToolCalls: []interaction.ToolCall{{ID: tag("call", i), Tool: "search", Arguments: tag("arguments", i)}}},
		}
		r.Model.Figures = interaction.ModelFigures{Duration: o(5000), FirstDelta: o(400), Turnaround: interaction.NotMeasured,
			ToolCallsMade: o(1)}
		if i > 0 {
			r.Model.Figures.Turnaround, r.Model.ReturnedCalls = o(995), []string{tag("call", i-1)}
		}
		at += 5002
		r.Registered.IssuedAt = at/1000 + 1
		t.receipts = append(t.receipts, r)
	}
	return t
}

func (t *trace) link() (hashes []string) {
	last := t.receipts[len(t.receipts)-1]
	if t.closed && last.Closing == nil {
		end := &interaction.Receipt{
			RequestID: "ses", EventID: last.EventID, RuntimeID: last.RuntimeID, Outcome: interaction.OutcomeCompleted,
			Closing: &interaction.Closing{Reason: interaction.ClosedEnded}, Session: last.Session,
			Timing: interaction.Timing{RequestReceived: last.IssuedAt * 1000},
		}
		end.Registered.IssuedAt = last.IssuedAt
		t.receipts = append(t.receipts, end)
	}
	for i, r := range t.receipts {
		if r.Chain.SequenceNumber == 0 {
			r.Chain = interaction.ChainLink{SessionID: "ses", SequenceNumber: int64(i + 1)}
			if i > 0 {
				r.Chain.PreviousReceiptHash = hashes[i-1]
			}
		}
		hashes = append(hashes, hashOf("receipt", i))
	}
	return hashes
}

func (t *trace) other(number int64) *trace {
	t.others = append(t.others,
		&interaction.Receipt{
			Chain: interaction.ChainLink{SessionID: "ses", SequenceNumber: number, PreviousReceiptHash: hashOf("x")}})
	return t
}

func (t *trace) judge(kind string, late bool) (dispute.Finding, bool) {
	hashes := t.link()
	of := dispute.Opened{Type: kind, Receipts: []string{hashes[len(hashes)-1]}}
	if t.unknown {
		of.Receipts = append(of.Receipts, hashOf("unknown"))
	}
	judged := make(map[string]bool)
	for _, hash := range t.judged {
		judged[hash] = true
	}
	trial := dispute.NewTrial(of, judged)
	r := trial.Session(t.challenges)
	for i, one := range t.receipts {
		if t.missing > 0 && i+1 >= t.missing || i+1 == t.gap {
			continue
		}
		r.Add(hashes[i], one)
	}
	for i, one := range t.others {
		r.Other(hashOf("other", i), one)
	}
	if t.forged {
		trial.Forged(hashOf("forged"))
	}
	return trial.Judge(late)
}

func (t *trace) edit(number int, edit func(*interaction.Receipt)) *trace {
	edit(t.receipts[number-1])
	return t
}

func (t *trace) with(edit func(*trace)) *trace {
	edit(t)
	return t
}

func plan(edit func(*strategy.Strategy)) autonomy.Challenge {
	s := strategy.Strategy{Tools: []string{"search"}, Hosts: []string{"m:443"}, Model: "model-1",
		Calls: strategy.Calls{Min: 1, Max: 100}}
	if edit != nil {
		edit(&s)
	}
	c := autonomy.Challenge{Nonce: "nonce", Issued: 1_800_000_000_000, Committed: 1_800_000_000_000,
		Salt: "c2l4dGVlbiBieXRlcywgMQ", Strategy: &s}
	hash, err := strategy.Commitment(c.Nonce, c.Salt, s)
	if err != nil {
		panic(err)
	}
	c.Commitment = hash
	return c
}

func (t *trace) committed(c autonomy.Challenge) *trace {
	t.challenges = append(t.challenges, c)
	for _, r := range t.receipts {
		r.Challenge = &interaction.ChallengeRef{ChallengeNonce: c.Nonce, CommitmentHash: c.Commitment}
	}
	return t
}

func (t *trace) probed(n, differ int) *trace {
	c := autonomy.Challenge{Nonce: "n"}
	for i := range n {
		c.Probes = append(c.Probes, [2]string{fmt.Sprint("one", i), fmt.Sprint("other", i)})
		for j, id := range c.Probes[i] {
			answer := tag("answer", i)
			if i < differ && j == 1 {
				answer = tag("another", i)
			}
			t.receipts[2*i+j].Model.Probe = &interaction.Probe{ID: id, Answer: answer}
		}
	}
	t.challenges = append(t.challenges, c)
	return t
}

func TestTrials(t *testing.T) {
	const timing, consistency, knowledge = dispute.TypeTiming, dispute.TypeConsistency, dispute.TypeKnowledge
	open := func(t *trace) { t.closed = false }
	figures := func(edit func(*interaction.ModelFigures)) func(*interaction.Receipt) {
		return func(r *interaction.Receipt) { edit(&r.Model.Figures) }
	}
	times := func(edit func(*interaction.Timing)) func(*interaction.Receipt) {
		return func(r *interaction.Receipt) { edit(&r.Timing) }
	}
	o := interaction.Observed
	// earlier makes a call earlier by so many milliseconds.
	earlier := func(by int64) func(*interaction.Receipt) {
		return func(r *interaction.Receipt) {
			r.Timing = interaction.Timing{RequestReceived: r.Timing.RequestReceived - by, LLMStart: r.Timing.LLMStart - by,
				LLMEnd: r.Timing.LLMEnd - by}
			r.Model.Figures.Turnaround = interaction.NotMeasured
		}
	}
	// overlapping is a session in which call 2 goes on while call 3 comes, which says that none was open.
	overlapping := func(before, after int64) *trace {
		w := working(4)
		c := w.receipts[2].Timing
		return w.edit(2, times(func(t *interaction.Timing) {
			t.LLMStart, t.LLMEnd = c.RequestReceived-before, c.LLMStart+after
		})).
			edit(2, figures(func(f *interaction.ModelFigures) { f.Duration = interaction.NotMeasured }))
	}
	for name, c := range map[string]struct {
		kind    string
		trace   *trace
		outcome string
		reason  string
		pending bool
	}{
		"a session that works: timing":      {timing, working(6), loses, "nothing_found", false},
		"a session that works: consistency": {consistency, working(6), loses, "nothing_found", false},
		"a session that works: knowledge": {knowledge, working(6).probed(3, 0), loses, "nothing_found",
			false},
		"a session that goes on: timing": {timing, working(6).with(open), nobody, "session_open", true},
		"a session that goes on: consistency": {consistency, working(6).with(open), nobody, "session_open",
			true},
		"a session that goes on: knowledge": {knowledge, working(6).probed(3, 0).with(open), nobody,
			"session_open", true},
		"receipts that were kept back": {timing, working(6).with(func(t *trace) {
			t.missing = 5
		}), nobody, "receipts_missing", true},
		"all receipts were kept back": {consistency, working(6).with(func(t *trace) {
			t.missing = 1
		}), nobody, "receipts_missing", true},
		"one that the node has lost: timing": {timing, working(6).with(func(t *trace) {
			t.gap = 3
		}), nobody, "receipts_missing", true},
		"one that the node has lost: consistency": {consistency, working(6).with(func(t *trace) {
			t.gap = 3
		}), nobody, "receipts_missing", true},
		"one more that is nowhere": {timing, working(6).with(func(t *trace) {
			t.unknown = true
		}), nobody, "receipts_missing", true},
		"what is there decides, whatever is kept back": {timing,
			working(6).edit(2, figures(func(f *interaction.ModelFigures) {
				f.Duration = o(35_001)
			})).with(func(t *trace) { t.missing = 5 }), wins, "duration_impossible", false},
		"forged evidence changes nothing of what was found": {timing,
			working(6).edit(2, figures(func(f *interaction.ModelFigures) {
				f.Duration = o(35_001)
			})).with(func(t *trace) { t.forged = true }), wins, "duration_impossible", false},
		"a duration that is longer than its call": {timing, working(6).edit(6, figures(func(f *interaction.ModelFigures) {
			f.Duration = o(35_001)
		})), wins, "duration_impossible", false},
		"by less than clocks differ": {timing, working(6).edit(6, figures(func(f *interaction.ModelFigures) {
			f.Duration = o(35_000)
		})), loses, "nothing_found", false},
		"that is another type's": {consistency, working(6).edit(6, figures(func(f *interaction.ModelFigures) {
			f.Duration = o(35_001)
		})), loses, "nothing_found", false},
		"an answer that began after its end": {timing, working(6).edit(6, figures(func(f *interaction.ModelFigures) {
			f.FirstDelta = o(5001)
		})), wins, "first_delta_impossible", false},
		"or with it": {timing, working(6).edit(6, figures(func(f *interaction.ModelFigures) {
			f.FirstDelta = o(5000)
		})), loses, "nothing_found", false},
		"or of which that was not measured": {timing, working(6).edit(6, figures(func(f *interaction.ModelFigures) {
			f.FirstDelta, f.Duration = o(5001), interaction.NotMeasured
		})), loses, "nothing_found", false},
		"a turnaround that is longer than the session": {timing,
			working(6).edit(2, figures(func(f *interaction.ModelFigures) {
				f.Turnaround = o(7003 + 30_001)
			})), wins, "turnaround_impossible", false},
		"or as long": {timing, working(6).edit(2, figures(func(f *interaction.ModelFigures) {
			f.Turnaround = o(7003 + 30_000)
		})), loses, "nothing_found", false},
		"a call that was open where none is said to be": {timing, overlapping(30_000, 30_000), wins, "calls_overlap", false},
		"that had begun too late for that":              {timing, overlapping(29_999, 30_000), loses, "nothing_found", false},
		"or had ended too early":                        {timing, overlapping(30_000, 29_999), loses, "nothing_found", false},
		"where no turnaround was measured": {timing,
			overlapping(30_000, 30_000).edit(3, figures(func(f *interaction.ModelFigures) {
				f.Turnaround = interaction.NotMeasured
			})), loses, "nothing_found", false},
		"a result before its call": {timing, working(6).edit(2, earlier(36_003)), wins,
			"result_before_call", false},
		"or at about its time": {timing, working(6).edit(2, earlier(36_002)), loses, "nothing_found",
			false},
		"a call that was not sent took no time": {timing, working(6).edit(2, func(r *interaction.Receipt) {
			r.Timing.LLMStart, r.Model.Figures.Duration = 0, o(99_999)
		}), loses, "nothing_found", false},
		"a challenge that was not issued yet": {timing, working(2).committed(plan(nil)).with(func(t *trace) {
			t.challenges[0].Issued = t.receipts[0].IssuedAt*1000 + 150_001
		}), wins, "challenge_before_issue", false},
		"or hardly": {timing, working(2).committed(plan(nil)).with(func(t *trace) {
			t.challenges[0].Issued = t.receipts[0].IssuedAt*1000 + 150_000
		}), loses, "nothing_found", false},
		"two chains: consistency": {consistency, working(6).other(3), wins, "chain_forked", false},
		"two chains, of which one goes on": {consistency, working(6).with(open).other(3), wins, "chain_forked",
			false},
		"two chains: timing": {timing, working(6).other(3), nobody, "chain_forked", false},
		"two chains: knowledge": {knowledge, working(6).probed(3, 0).other(3), nobody, "chain_forked",
			false},
		"a receipt after the end": {consistency, working(6).other(8), wins, "chain_forked", false},
		"a receipt that the node does not have yet": {consistency, working(6).with(open).other(9), nobody, "session_open",
			true},
		"a receipt that names another one before it": {consistency, working(6).with(func(t *trace) {
			t.receipts[2].Chain = interaction.ChainLink{SessionID: "ses", SequenceNumber: 3, PreviousReceiptHash: hashOf("x")}
		}), wins, "chain_broken", false},
		"of another event": {consistency, working(6).edit(3, func(r *interaction.Receipt) {
			r.EventID = "x"
		}), wins, "chain_broken", false},
		"of another runtime": {consistency, working(6).edit(3, func(r *interaction.Receipt) {
			r.RuntimeID = "x"
		}), wins, "chain_broken", false},
		"of another beginning": {consistency, working(6).edit(3, func(r *interaction.Receipt) {
			r.Session.OpenedMS++
		}), wins, "chain_broken", false},
		"of an earlier time": {consistency, working(6).edit(3, func(r *interaction.Receipt) {
			r.Registered.IssuedAt -= 60
		}), wins, "chain_broken", false},
		"with fewer calls": {consistency, working(6).edit(3, func(r *interaction.Receipt) {
			r.Session.Calls = 1
		}), wins, "chain_broken", false},
		"with fewer calls that were seen": {consistency, working(6).edit(3, func(r *interaction.Receipt) {
			r.Session.CallsObserved = 1
		}), wins, "chain_broken", false},
		"with fewer bytes": {consistency, working(6).edit(2, func(r *interaction.Receipt) {
			r.Session.BytesOut = 1
		}), wins, "chain_broken", false},
		"with fewer bytes that were seen": {consistency, working(6).edit(2, func(r *interaction.Receipt) {
			r.Session.BytesOutObserved = 1
		}), wins, "chain_broken", false},
		"after the end": {consistency, working(6).edit(2, func(r *interaction.Receipt) {
			r.Closing = &interaction.Closing{Reason: "ended"}
		}), wins, "chain_broken", false},
		"none of which is about time": {timing, working(6).edit(3, func(r *interaction.Receipt) {
			r.EventID = "x"
		}), loses, "nothing_found", false},
		"a result of a call that no answer made": {consistency, working(6).edit(3, func(r *interaction.Receipt) {
			r.Model.ReturnedCalls = []string{tag("other", 1)}
		}), wins, "result_without_call", false},
		"in a session that goes on, where it may come": {consistency, working(6).edit(3, func(r *interaction.Receipt) {
			r.Model.ReturnedCalls = []string{tag("other", 1)}
		}).with(open), nobody, "session_open", true},
		"where an answer made more calls than are named": {consistency, working(6).edit(3, func(r *interaction.Receipt) {
			r.Model.ReturnedCalls = []string{tag("other", 1)}
			r.Model.Figures.ToolCallsMade = o(2)
		}), loses, "nothing_found", false},
		"where it is not known how many calls an answer made": {consistency, working(6).edit(3, func(r *interaction.Receipt) {
			r.Model.ReturnedCalls = []string{tag("other", 1)}
			r.Model.Figures.ToolCallsMade = interaction.NotMeasured
		}), loses, "nothing_found", false},
		"where a call has no id": {consistency, working(6).edit(3, func(r *interaction.Receipt) {
			r.Model.ReturnedCalls = []string{tag("other", 1)}
			r.Model.ToolCalls[0].ID = ""
		}), loses, "nothing_found", false},
		"where a call failed that nobody answered": {consistency, working(6).edit(3, func(r *interaction.Receipt) {
			r.Model.ReturnedCalls = []string{tag("other", 1)}
		}).edit(5, func(r *interaction.Receipt) {
			r.Outcome, r.Timing.LLMEnd, r.Model.Figures.ToolCallsMade, r.Model.ToolCalls = "failed", 0, interaction.NotMeasured,
				nil
		}).edit(6, func(r *interaction.Receipt) { r.Model.ReturnedCalls = nil }), wins, "result_without_call", false},
		"a strategy that was kept": {consistency, working(6).committed(plan(nil)), loses,
			"nothing_found", false},
		"another tool": {consistency, working(6).committed(plan(func(s *strategy.Strategy) {
			s.Tools = []string{"read"}
		})), wins, "strategy_broken", false},
		"another host": {consistency, working(6).committed(plan(func(s *strategy.Strategy) {
			s.Hosts = []string{"o:443"}
		})), wins, "strategy_broken", false},
		"another model": {consistency, working(6).committed(plan(func(s *strategy.Strategy) {
			s.Model = "model-2"
		})), wins, "strategy_broken", false},
		"too many calls": {consistency, working(6).committed(plan(func(s *strategy.Strategy) {
			s.Calls.Max = 5
		})), wins, "strategy_broken", false},
		"as many calls as it allows": {consistency, working(6).committed(plan(func(s *strategy.Strategy) {
			s.Calls = strategy.Calls{Min: 6, Max: 6}
		})), loses, "nothing_found", false},
		"too few calls": {consistency, working(6).committed(plan(func(s *strategy.Strategy) {
			s.Calls.Min = 7
		})), wins, "strategy_broken", false},
		"too few so far": {consistency, working(6).committed(plan(func(s *strategy.Strategy) {
			s.Calls.Min = 7
		})).with(open), nobody, "session_open", true},
		"too few that the node has": {consistency, working(6).committed(plan(func(s *strategy.Strategy) {
			s.Calls.Min = 6
		})).with(func(t *trace) { t.gap = 4 }), nobody, "receipts_missing", true},
		"a tool that nobody saw": {consistency, working(6).committed(plan(nil)).edit(3, func(r *interaction.Receipt) {
			r.Model.ToolCalls[0].Tool = ""
		}), loses, "nothing_found", false},
		"tools that were not measured": {consistency, working(6).committed(plan(nil)).edit(6, func(r *interaction.Receipt) {
			r.Model.Figures.ToolCallsMade = interaction.NotMeasured
		}), loses, "nothing_found", false},
		"a strategy that is not revealed": {consistency, working(6).committed(plan(nil)).with(func(t *trace) {
			t.challenges[0].Strategy = nil
		}), nobody, "strategy_hidden", false},
		"a strategy that nobody committed to": {consistency, working(6).committed(plan(nil)).with(func(t *trace) {
			t.challenges[0].Strategy, t.challenges[0].Commitment = nil, ""
		}), loses, "nothing_found", false},
		"a strategy that is not the one of the commitment": {consistency,
			working(6).committed(plan(nil)).with(func(t *trace) {
				t.challenges[0].Strategy = plan(func(s *strategy.Strategy) { s.Model = "x" }).Strategy
			}), loses, "nothing_found", false},
		"most questions answered both ways": {knowledge, working(6).probed(3, 2), wins, "probes_disagree",
			false},
		"some questions answered both ways": {knowledge, working(6).probed(3, 1), nobody, "probes_divided",
			false},
		"half of them": {knowledge, working(8).probed(4, 2), nobody, "probes_divided",
			false},
		"more than half": {knowledge, working(8).probed(4, 3), wins, "probes_disagree",
			false},
		"too few questions answered": {knowledge, working(6).probed(2, 2), nobody, "probes_unanswered",
			false},
		"a question that was answered once": {knowledge, working(6).probed(3, 3).edit(6, func(r *interaction.Receipt) {
			r.Model.Probe.Answer = ""
		}), nobody, "probes_unanswered", false},
		"no questions": {knowledge, working(6), nobody, "probes_unanswered", false},
		"both ways, in a session that goes on": {knowledge, working(6).probed(3, 3).with(open), wins,
			"probes_disagree", true},
	} {
		t.Run(name, func(t *testing.T) {
			early, ended := c.trace.judge(c.kind, false)
			if ended == c.pending {
				t.Errorf("it ends early: %t, as %+v", ended, early)
			}
			f, ended := c.trace.judge(c.kind, true)
			if !ended || f.Outcome != c.outcome || f.Reason != c.reason || f.Malicious {
				t.Errorf("it ends: %t, as %+v", ended, f)
			}
			check.Must(t, entryOf(f))
		})
	}
}

func TestWhatHasCounted(t *testing.T) {
	const timing, consistency, knowledge = dispute.TypeTiming, dispute.TypeConsistency, dispute.TypeKnowledge
	long := func(r *interaction.Receipt) { r.Model.Figures.Duration = interaction.Observed(35_001) }
	strange := func(r *interaction.Receipt) { r.Model.ReturnedCalls = []string{tag("other", 1)} }
	other := func(r *interaction.Receipt) { r.EventID = "x" }
	tools := func(s *strategy.Strategy) { s.Tools = []string{"read"} }
	calls := func(s *strategy.Strategy) { s.Calls.Max = 5 }
	early := func(number int) *trace {
		return working(6).edit(number, func(r *interaction.Receipt) {
			r.Timing = interaction.Timing{RequestReceived: r.Timing.RequestReceived - 99_000,
				LLMStart: r.Timing.LLMStart - 99_000, LLMEnd: r.Timing.LLMEnd - 99_000}
			r.Model.Figures.Turnaround = interaction.NotMeasured
		})
	}
	for name, c := range map[string]struct {
		kind    string
		trace   *trace
		outcome string
		reason  string
	}{
		"a receipt by itself, before": {timing, working(6).edit(3, long), loses, "nothing_found"},
		"a receipt by itself, after":  {timing, working(6).edit(4, long), wins, "duration_impossible"},
		"receipts together, before":   {timing, early(3), loses, "nothing_found"},
		"receipts together, after":    {timing, early(5), wins, "result_before_call"},
		"two that contradict, before": {consistency, working(6).edit(1, other), loses, "nothing_found"},
		"the first one after":         {consistency, working(6).edit(4, other), wins, "chain_broken"},
		"a result, before":            {consistency, working(6).edit(2, strange), loses, "nothing_found"},
		"a result, after":             {consistency, working(6).edit(5, strange), wins, "result_without_call"},
		"a result of a call from there": {consistency, working(6).edit(5, func(r *interaction.Receipt) {
			r.Model.ReturnedCalls = []string{tag("call", 1)}
		}), loses, "nothing_found"},
		"a strategy, before": {consistency, working(6).committed(plan(tools)), loses, "nothing_found"},
		"a strategy, after":  {consistency, working(6).committed(plan(calls)), wins, "strategy_broken"},
		"a fork that was shown": {consistency, working(6).other(2).with(func(t *trace) {
			t.judged = append(t.judged, hashOf("other", 0))
		}), loses, "nothing_found"},
		"another fork":    {consistency, working(6).other(2), wins, "chain_forked"},
		"answers, before": {knowledge, working(12).probed(6, 1), loses, "nothing_found"},
		"answers, after":  {knowledge, working(12).probed(6, 6), wins, "probes_disagree"},
	} {
		t.Run(name, func(t *testing.T) {
			c.trace.judged = append(c.trace.judged, hashOf("receipt", 2))
			f, ended := c.trace.judge(c.kind, false)
			if !ended || f.Outcome != c.outcome || f.Reason != c.reason {
				t.Errorf("it ends: %t, as %+v", ended, f)
			}
		})
	}
}

func TestTrialsAreBounded(t *testing.T) {
	w := working(1)
	w.link()
	one, impossible := *w.receipts[0], *w.receipts[0].Model
	impossible.Figures.Duration = interaction.Observed(99_000)
	// full is a trial of two sessions that has read as much as it may, and where the second goes on.
	full := func(last *interaction.ModelCall) (*dispute.Trial, *dispute.Record) {
		trial := dispute.NewTrial(dispute.Opened{Type: dispute.TypeTiming}, nil)
		var r *dispute.Record
		for i := range dispute.MaxRead {
			next := one
			if next.Chain.SequenceNumber = int64(i%(dispute.MaxRead/2)) + 1; next.Chain.SequenceNumber == 1 {
				r = trial.Session(nil)
			}
			if i == dispute.MaxRead-1 {
				next.Model = last
			}
			if !r.Add(strconv.Itoa(i), &next) {
				t.Fatalf("receipt %d is too many", i)
			}
		}
		return trial, r
	}
	for name, c := range map[string]struct {
		last      *interaction.ModelCall
		then, now string // the reason before the next receipt, and after it
	}{
		"nothing is found":     {one.Model, "session_open", "trial_too_long"},
		"the last one decides": {&impossible, "duration_impossible", "duration_impossible"},
	} {
		t.Run(name, func(t *testing.T) {
			trial, r := full(c.last)
			then, _ := trial.Judge(false)
			more := one
			more.Chain.SequenceNumber, more.Model = dispute.MaxRead/2+1, &impossible
			if r.Add("more", &more) {
				t.Error("one more is read")
			}
			now, ended := trial.Judge(false)
			check.WantEqual(t, []string{then.Reason, now.Reason}, []string{c.then, c.now})
			if !ended {
				t.Error("the trial goes on")
			}
		})
	}
}

func entryOf(f dispute.Finding) error {
	_, err := dispute.Entry{At: 1,
		Resolved: &dispute.Resolved{DisputeID: dispute.DisputeID(hashOf(1)), Finding: f,
			Resolver: dispute.ResolverRules}}.Encode()
	return err
}

func TestForgedEvidence(t *testing.T) {
	for outcome, w := range map[string]*trace{loses: working(3), nobody: working(3).with(func(t *trace) {
		t.closed = false
	})} {
		w.forged = true
		f, ended := w.judge(dispute.TypeTiming, true)
		if !ended || f.Outcome != outcome || f.Malicious != (outcome == loses) {
			t.Errorf("%+v", f)
		}
	}
}

func TestWhatWasBrought(t *testing.T) {
	w := working(3)
	hashes := w.link()
	trial := dispute.NewTrial(dispute.Opened{Type: dispute.TypeConsistency, Receipts: []string{hashes[1]}}, nil)
	r := trial.Session(nil)
	for i, one := range w.receipts {
		r.Add(hashes[i], one)
	}
	r.Other(hashes[1], w.receipts[1])
	f, _ := trial.Judge(false)
	check.WantEqual(t, f, dispute.Finding{Outcome: loses, Reason: "nothing_found", Inputs: []string{hashes[3]}})
}

func TestInputs(t *testing.T) {
	w := working(3).committed(plan(nil)).other(2)
	notes, err := evidence.HashValue(w.challenges)
	check.Must(t, err)
	f, _ := w.judge(dispute.TypeConsistency, false)
	want := map[string]bool{hashOf("receipt", 3): true, notes: true, hashOf("other", 0): true}
	for _, in := range f.Inputs {
		if !want[in] {
			t.Errorf("an input is %s", in)
		}
		delete(want, in)
	}
	if len(want) > 0 {
		t.Errorf("missing are %v", want)
	}
	// Of many contradictions only some are named, and a log takes the finding.
	trial := dispute.NewTrial(dispute.Opened{Type: dispute.TypeConsistency, Receipts: []string{hashOf(1)}}, nil)
	for s := range dispute.MaxSessions {
		r := trial.Session(w.challenges)
		for i, one := range working(2).with(func(t *trace) { t.link() }).receipts {
			r.Add(hashOf(s, i), one)
		}
		for i := range 100 {
			r.Other(hashOf(s, "other", i), w.others[0])
		}
		trial.Forged(hashOf(s, "forged"))
	}
	f, ended := trial.Judge(false)
	if !ended || f.Outcome != wins {
		t.Errorf("%+v", f)
	}
	check.Must(t, entryOf(f))
}

func TestSessionsOfATrial(t *testing.T) {
	for name, c := range map[string]struct {
		second  *trace
		outcome string
		ended   bool
	}{
		"both work": {working(2), loses, true}, "one has two chains": {working(2).other(1), wins, true},
		"one goes on": {working(2).with(func(t *trace) {
			t.closed = false
		}), nobody, false},
	} {
		t.Run(name, func(t *testing.T) {
			trial := dispute.NewTrial(dispute.Opened{Type: dispute.TypeConsistency}, nil)
			for i, w := range []*trace{working(2), c.second} {
				r := trial.Session(nil)
				for j, hash := range w.link() {
					r.Add(hashOf(i, hash), relinked(w.receipts[j], i, w, j))
				}
				for k, one := range w.others {
					r.Other(hashOf("other", k), one)
				}
			}
			f, ended := trial.Judge(false)
			if f.Outcome != c.outcome || ended != c.ended {
				t.Errorf("it ends: %t, as %+v", ended, f)
			}
		})
	}
}

func relinked(r *interaction.Receipt, i int, w *trace, at int) *interaction.Receipt {
	if at > 0 {
		r.Chain.PreviousReceiptHash = hashOf(i, hashOf("receipt", at-1))
	}
	return r
}
