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

type receipt = interaction.Receipt

type trace struct {
	receipts   []*receipt
	challenges []autonomy.Challenge
	closed     bool
	missing    int // from this number on the node does not hold them; 0 for none
	gap        int // the node has lost this one; 0 for none
	others     []*receipt
	forged     bool
	unknown    bool     // the dispute names a receipt that is nowhere
	judged     []string // hashes of evidence in a dispute that the target lost
}

func tag(what string, n int) string { return hashOf(what, n)[:32] }

func working(n int) *trace {
	o, at, t := interaction.Observed, int64(1_800_000_000_000), &trace{closed: true}
	for i := range n {
		at += 1000
		r := &receipt{
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
		end := &receipt{
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
		&receipt{
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

func (t *trace) edit(number int, edit func(*receipt)) *trace {
	edit(t.receipts[number-1])
	return t
}

func (t *trace) duration(number int, f interaction.Figure) *trace {
	return t.edit(number, func(r *receipt) { r.Model.Figures.Duration = f })
}

func (t *trace) firstDelta(number int, f interaction.Figure) *trace {
	return t.edit(number, func(r *receipt) { r.Model.Figures.FirstDelta = f })
}

func (t *trace) turnaround(number int, f interaction.Figure) *trace {
	return t.edit(number, func(r *receipt) { r.Model.Figures.Turnaround = f })
}

func (t *trace) goesOn() *trace { return t.with(func(t *trace) { t.closed = false }) }

func (t *trace) lost(number int) *trace { return t.with(func(t *trace) { t.gap = number }) }

func (t *trace) keptBack(from int) *trace { return t.with(func(t *trace) { t.missing = from }) }

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

// TestTrials: what the golden vectors do not show.
func TestTrials(t *testing.T) {
	const timing, consistency, knowledge = dispute.TypeTiming, dispute.TypeConsistency, dispute.TypeKnowledge
	o := interaction.Observed
	// overlapping is a session in which call 2 goes on while call 3 comes, which says that none was open.
	overlapping := func(before, after int64) *trace {
		w := working(4)
		c := w.receipts[2].Timing
		return w.edit(2, func(r *receipt) {
			r.Timing.LLMStart, r.Timing.LLMEnd = c.RequestReceived-before, c.LLMStart+after
		}).duration(2, interaction.NotMeasured)
	}
	calls := func(least, most int64) *trace {
		return working(6).committed(plan(func(s *strategy.Strategy) { s.Calls = strategy.Calls{Min: least, Max: most} }))
	}
	const fine, missing = "nothing_found", "receipts_missing"
	for name, c := range map[string]struct {
		kind            string
		trace           *trace
		outcome, reason string
	}{
		"all receipts were kept back": {consistency, working(6).keptBack(1), nobody, missing},
		"one more receipt that is nowhere": {timing, working(6).with(func(t *trace) {
			t.unknown = true
		}), nobody, missing},
		"what is there decides": {timing, working(6).duration(2, o(35_001)).keptBack(5), wins,
			"duration_impossible"},
		"a duration that another type is about": {consistency, working(6).duration(6, o(35_001)), loses, fine},
		"an answer after an end that was not measured": {timing,
			working(6).firstDelta(6, o(5001)).duration(6, interaction.NotMeasured), loses, fine},
		"an open call that had begun too late":  {timing, overlapping(29_999, 30_000), loses, fine},
		"an open call that had ended too early": {timing, overlapping(30_000, 29_999), loses, fine},
		"an open call without a turnaround": {timing, overlapping(30_000, 30_000).turnaround(3, interaction.NotMeasured),
			loses, fine},
		"a call that was not sent took no time": {timing, working(6).duration(2, o(99_999)).edit(2, func(r *receipt) {
			r.Timing.LLMStart = 0
		}), loses, fine},
		"two chains, of which one goes on": {consistency, working(6).goesOn().other(3), wins, "chain_forked"},
		"another event is not about time":  {timing, working(6).edit(3, func(r *receipt) { r.EventID = "x" }), loses, fine},
		"a result, where a call failed that nobody answered": {consistency, working(6).edit(3, func(r *receipt) {
			r.Model.ReturnedCalls = []string{tag("other", 1)}
		}).edit(5, func(r *receipt) {
			r.Outcome, r.Timing.LLMEnd, r.Model.ToolCalls = "failed", 0, nil
			r.Model.Figures.ToolCallsMade = interaction.NotMeasured
		}).edit(6, func(r *receipt) { r.Model.ReturnedCalls = nil }), wins, "result_without_call"},
		"as many calls as the strategy allows": {consistency, calls(6, 6), loses, fine},
		"too few calls that the node has":      {consistency, calls(6, 100).lost(4), nobody, missing},
		"a strategy that nobody committed to": {consistency, working(6).committed(plan(nil)).with(func(t *trace) {
			t.challenges[0].Strategy, t.challenges[0].Commitment = nil, ""
		}), loses, fine},
		"more than half of the questions": {knowledge, working(8).probed(4, 3), wins, "probes_disagree"},
		"a question that was answered once": {knowledge, working(6).probed(3, 3).edit(6, func(r *receipt) {
			r.Model.Probe.Answer = ""
		}), nobody, "probes_unanswered"},
	} {
		t.Run(name, func(t *testing.T) {
			if early, ended := c.trace.judge(c.kind, false); ended == (c.reason == missing) {
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

// TestWhatHasCounted: what the golden vectors do not show.
func TestWhatHasCounted(t *testing.T) {
	const timing, consistency, knowledge = dispute.TypeTiming, dispute.TypeConsistency, dispute.TypeKnowledge
	other := func(r *receipt) { r.EventID = "x" }
	planned := func(edit func(*strategy.Strategy)) *trace { return working(6).committed(plan(edit)) }
	early := func(number int) *trace {
		return working(6).edit(number, func(r *receipt) {
			r.Timing = interaction.Timing{RequestReceived: r.Timing.RequestReceived - 99_000,
				LLMStart: r.Timing.LLMStart - 99_000, LLMEnd: r.Timing.LLMEnd - 99_000}
			r.Model.Figures.Turnaround = interaction.NotMeasured
		})
	}
	for name, c := range map[string]struct {
		kind            string
		trace           *trace
		outcome, reason string
	}{
		"receipts together, before":   {timing, early(3), loses, "nothing_found"},
		"receipts together, after":    {timing, early(5), wins, "result_before_call"},
		"two that contradict, before": {consistency, working(6).edit(1, other), loses, "nothing_found"},
		"the first one after":         {consistency, working(6).edit(4, other), wins, "chain_broken"},
		"a result of a call from there": {consistency, working(6).edit(5, func(r *receipt) {
			r.Model.ReturnedCalls = []string{tag("call", 1)}
		}), loses, "nothing_found"},
		"a strategy, before": {consistency, planned(func(s *strategy.Strategy) { s.Tools = []string{"read"} }), loses,
			"nothing_found"},
		"a strategy, after": {consistency, planned(func(s *strategy.Strategy) { s.Calls.Max = 5 }), wins,
			"strategy_broken"},
		"answers, after": {knowledge, working(12).probed(6, 6), wins, "probes_disagree"},
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
	for outcome, w := range map[string]*trace{loses: working(3), nobody: working(3).goesOn()} {
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
		"one goes on": {working(2).goesOn(), nobody, false},
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

func relinked(r *receipt, i int, w *trace, at int) *receipt {
	if at > 0 {
		r.Chain.PreviousReceiptHash = hashOf(i, hashOf("receipt", at-1))
	}
	return r
}
