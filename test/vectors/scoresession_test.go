package vectors_test

import (
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/strategy"
)

func dist(median, spread float64) autonomy.Distribution {
	return autonomy.Distribution{Median: median, Spread: spread}
}

func challengeWithProbes(pairs ...string) autonomy.Challenge {
	c := autonomy.Challenge{Nonce: "probes", Issued: midnight - 8000}
	for _, p := range pairs {
		c.Probes = append(c.Probes, [2]string{p[:1], p[1:]})
	}
	return c
}

func textCases() []*scored {
	usual := usually(textOf("model-1", 0, 10, dist(7000, 100), dist(400, 0)))
	text := func(name string, sample func(*receipt)) *scored {
		return texts.when(name).with(usual).calls(1, one(0, sample))
	}
	both := func(s *scored, entropy, compression float64) *scored {
		return s.expect("word_entropy", 1, entropy, 3*entropy, isObserved).
			expect("compression", 1, compression, 3*compression, isObserved)
	}
	neither := func(s *scored) *scored { return s.unmeasured("word_entropy", 0).unmeasured("compression", 0) }
	two := usually(textOf("model-1", 0, 10, dist(7000, 100), dist(400, 0)),
		textOf("model-2", 1, 10, dist(8000, 100), dist(300, 10)))
	return []*scored{
		neither(texts.when("no baseline").calls(1, one(0, sampled(5000, 7000, 400)))),
		neither(texts.when("a baseline of 9 sessions").
			with(usually(textOf("model-1", 0, 9, dist(7000, 100), dist(400, 0)))).
			calls(1, one(0, sampled(5000, 7000, 400)))),
		neither(texts.when("no sample").with(usual).calls(1)),
		both(text("as usual", sampled(5000, 7000, 400)), 1, 1),
		both(text("at the upper edges", sampled(5000, 7296, 408)), 1, 1), // 2 · 148.26, and of a spread of 0: 2 · 4
		both(text("above them", sampled(5000, 7297, 409)), 0, 0),
		both(text("at the lower edges", sampled(5000, 6704, 392)), 1, 1),
		both(text("below them", sampled(5000, 6703, 391)), 0, 0),
		both(text("one of the two", sampled(5000, 7000, 500)), 1, 0),
		both(text("8,191 bytes are of the first class", sampled(8191, 7000, 400)), 1, 1),
		neither(text("8,192 bytes are not", sampled(8192, 7000, 400))),
		both(texts.when("the last sample counts").with(usual).
			calls(3, one(0, sampled(4096, 1, 1)), one(1, sampled(5000, 7000, 400))), 1, 1),
		both(texts.when("a sample without a compression is none").with(usual).
			calls(2, one(0, sampled(4096, 7000, 400)), one(1, sampled(5000, 1, 1)), one(1, func(r *receipt) {
				figures(r).Compression = unknown
			})), 1, 1),
		both(texts.when("a sample without an entropy is none").with(usual).
			calls(2, one(0, sampled(4096, 7000, 400)), one(1, sampled(5000, 1, 1)), one(1, func(r *receipt) {
				figures(r).WordEntropy = unknown
			})), 1, 1),
		texts.when("two models, by their bytes").with(two).
			calls(2, one(0, sampled(4096, 7000, 900)), one(1, sampled(12288, 9000, 310)), one(1, to(modelHost, "model-2"))).
			expect("word_entropy", 2, 0.25, 0.75, isObserved).expect("compression", 2, 0.75, 2.25, isObserved),
		both(texts.when("two models, of which one has a baseline").with(usual).
			calls(2, one(0, sampled(4096, 7000, 400)), one(1, sampled(12288, 9000, 310)),
				one(1, to(modelHost, "model-2"))), 1, 1),
		neither(texts.when("the model that came first has the longest sample").
			calls(2, one(0, sampled(5000, 7123, 400)), one(1, sampled(5000, 6000, 400)), one(1, to(modelHost, "model-2")))),

		endurance.when("20 calls in half an hour").
			calls(20, every(90*1000), one(19, func(r *receipt) { r.Timing.LLMEnd = midnight + 30*minute })).
			gives(20, 1, 6),
		endurance.when("more of both").calls(40, every(90*1000)).gives(40, 1, 6),
		endurance.when("5 calls in 6 minutes").
			calls(5, every(90*1000), one(4, func(r *receipt) { r.Timing.LLMEnd = 0 })).gives(5, 0.05, 0.3),
		endurance.when("one call without an end").calls(1, func(_ int, r *receipt) { r.Timing.LLMEnd = 0 }).gives(1, 0, 0),
		endurance.when("an earlier call that ended last").
			calls(2, one(0, func(r *receipt) { r.Timing.LLMEnd = midnight + 30*minute })).gives(2, 0.1, 0.6),
		endurance.when("calls that do not count").
			calls(3, every(30*minute), one(0, ended("failed")), one(2, to(ownHost, "m"))).
			gives(1, 1.0/36000, 6.0/36000),
	}
}

func every(ms int64) edit {
	return func(i int, r *receipt) {
		r.Timing = interaction.Timing{RequestReceived: midnight + int64(i)*ms, LLMEnd: midnight + int64(i)*ms + 1000}
	}
}

func hours(days int, hours ...int) (n int, at edit) {
	return days * len(hours), func(i int, r *receipt) {
		at := int64(midnight + i/len(hours)*86_400_000 + hours[i%len(hours)]*3_600_000)
		r.Timing = interaction.Timing{RequestReceived: at, LLMEnd: at + 1000}
		figures(r).Turnaround = seen(100)
	}
}

func without(quiet ...int) (out []int) {
	for h := range 24 {
		busy := true
		for _, q := range quiet {
			busy = busy && h != q
		}
		if busy {
			out = append(out, h)
		}
	}
	return out
}

func fatigueCases() []*scored {
	long := every(3 * minute) // half an hour with 11 calls
	growing := func(name string, first, step int64, value float64) *scored {
		return fatigue.when(name).calls(11, long, gaps(func(i int) int64 {
			return first + step*int64(i)
		})).gives(10, value, 8-value)
	}
	rhythm := func(name string, days int, value float64, busy ...int) *scored {
		n, edit := hours(days, busy...)
		return fatigue.when(name).calls(n, edit).gives(int64(n-1), value, 8-value)
	}
	n, eighteen := hours(4, without(0, 1, 2, 3, 4, 5)...)
	return []*scored{
		fatigue.when("9 gaps").calls(10, long, gaps(always(100))).nothing(9),
		fatigue.when("equal gaps").calls(11, long, gaps(always(100))).gives(10, 0, 8),
		fatigue.when("a quarter of an hour").calls(11, every(89_900), gaps(always(100))).gives(10, 0, 4),
		fatigue.when("gaps of 0").calls(11, long, gaps(always(0))).gives(10, 0, 8),
		growing("faster", 100, -5, 0),
		growing("slower by a half", 27, 2, 0), // growth (a + 9k - a) / (a + 4.5k) of gaps a + ki
		growing("as much slower as the median", 9, 2, 4),
		growing("slower by half as much again", 3, 2, 8),
		fatigue.when("twice as slow in the second half").
			calls(11, long, gaps(of(100, 100, 100, 100, 100, 200, 200, 200, 200, 200))).gives(10, 5.6, 2.4),
		// 100/60000 over 100000, by a median of 200: 5/6 growth
		fatigue.when("an odd number of gaps, of which the middle is in no pair").
			calls(12, long, gaps(of(100, 100, 100, 100, 100, 9999, 200, 200, 200, 200, 200))).gives(11, 8.0/3, 16.0/3),
		fatigue.when("gaps of 0, and then long ones").calls(11, long, gaps(of(0, 0, 0, 0, 0, 0, 0, 90, 90, 90))).gives(10, 8, 0),
		fatigue.when("all at one time").calls(11, long, gaps(times(10)), every(0)).gives(10, 0, 8.0/1800),
		fatigue.when("times that do not rise make no pair").
			calls(11, long, gaps(of(100, 100, 100, 100, 100, 200, 200, 200, 200, 200)), one(6, func(r *receipt) {
				r.Timing.RequestReceived = midnight
			})).
			gives(10, 5.6, 2.4),

		fatigue.when("the last request came before the first").
			calls(11, long, gaps(func(i int) int64 {
				return int64(1000 - 100*i)
			}), one(10, func(r *receipt) { r.Timing.RequestReceived = midnight - 500_000 })).
			gives(10, 0, 8),

		rhythm("4 quiet hours", 4, 0, without(0, 1, 2, 3)...),
		rhythm("6 quiet hours", 4, 4, without(0, 1, 2, 3, 4, 5)...),
		rhythm("8 quiet hours", 5, 8, without(3, 4, 5, 6, 7, 8, 9, 10)...),
		rhythm("12 quiet hours", 6, 8, without(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)...),
		rhythm("quiet hours over midnight", 5, 4, without(22, 23, 0, 1, 2, 3)...),
		rhythm("quiet hours in two pieces", 4, 0, without(0, 1, 2, 12, 13, 14)...),
		rhythm("71 hours", 3, 0, without(0)...),
		fatigue.when("71 calls").calls(n-1, eighteen).gives(70, 0, 8),
		fatigue.when("slower, and a rhythm").calls(n, eighteen, gaps(func(i int) int64 { return int64(60 + i) })).
			gives(71, 528.0/95, 232.0/95),
	}
}

func challengeCases() []*scored {
	c := challengeOf("nonce-1", plan())
	second := challengeOf("nonce-2", plan())
	search := tools(named("search"), tags("arguments"))
	none := func(name string, c autonomy.Challenge) *scored {
		return commitments.when(name).with(nil, c).gives(1, 0, 0)
	}
	kept := func(name string, challenges ...autonomy.Challenge) *scored {
		k := float64(len(challenges))
		all := k / (k + 1.959963984540054*1.959963984540054) // Wilson's bound, k of k
		return commitments.when(name).with(nil, challenges...).gives(int64(k), all, 15*all)
	}
	half := func(name string, value float64, challenges ...autonomy.Challenge) *scored {
		return commitments.when(name).with(nil, challenges...).gives(2, value, 15*value)
	}
	edited := func(edit func(*autonomy.Challenge)) autonomy.Challenge {
		other := c
		edit(&other)
		return other
	}
	at := func(issued, committed int64) autonomy.Challenge {
		return edited(func(c *autonomy.Challenge) { c.Issued, c.Committed = midnight+issued, midnight+committed })
	}
	late := edited(func(c *autonomy.Challenge) { c.Committed = midnight + 5000 })
	hidden := edited(func(c *autonomy.Challenge) { c.Salt, c.Strategy = "", nil })
	salted := func(salt string) autonomy.Challenge { return edited(func(c *autonomy.Challenge) { c.Salt = salt }) }
	more := plan()
	more.Calls.Max++
	broken := challengeOf("nonce-1",
		strategy.Strategy{Tools: []string{}, Hosts: []string{modelHost}, Model: "model-1",
			Calls: strategy.Calls{Min: 1, Max: 8}})
	end := &receipt{Closing: &interaction.Closing{Reason: "ended"}, Challenge: refTo(c, true)}
	uncommitted := &interaction.ChallengeRef{ChallengeNonce: c.Nonce}
	post := &receipt{Post: &interaction.PostMade{Status: 201}, Challenge: uncommitted}
	open := one(0, func(r *receipt) { r.Challenge = uncommitted })
	return []*scored{
		commitments.when("none").calls(1).nothing(0),
		none("issued", autonomy.Challenge{Nonce: "nonce-1", Issued: midnight}).calls(1),
		none("committed, and not revealed", hidden).calls(3, search, naming(c, 9)),
		none("revealed, and no receipt says so", c).calls(3, search, naming(c, 9)),
		none("revealed, and no receipt names it", c).calls(3, search),
		none("receipts name another commitment", c).calls(3, search, naming(edited(func(c *autonomy.Challenge) {
			c.Commitment = second.Commitment
		}), 2)),
		none("another salt", salted(planSalt[:len(planSalt)-1]+"A")).calls(3, search, naming(c, 2)),
		none("a short salt", salted("AA")).calls(3, search, naming(c, 2)),
		none("another strategy", edited(func(c *autonomy.Challenge) { c.Strategy = &more })).calls(3, search, naming(c, 2)),
		none("no model call", c).other(end),
		kept("passed", c).calls(3, search, naming(c, 2)),
		kept("revealed in the receipt that closes", c).calls(3, search, naming(c, 9)).other(end),
		kept("calls before it was issued", at(10_001, 15_000)).calls(2).calls(2, search, naming(c, 1)),
		none("a call between issue and commitment", late).calls(3, search, naming(c, 2)),
		none("a call in the millisecond of the issue", at(0, 1)).calls(3, search, naming(c, 2)),
		kept("a call in the millisecond of the commitment", at(-8000, 0)).calls(3, search, naming(c, 2)),
		kept("a call between, counted out by its time", at(1000, 10_000)).calls(1).calls(2, search, naming(c, 1)),
		none("a receipt with the nonce and no commitment", c).calls(1, open).calls(3, search, naming(c, 2)),
		none("a receipt with the nonce and no commitment, and then a post", c).calls(1, open).other(post).
			calls(3, search, naming(c, 2)),
		kept("a post with the nonce and no commitment", c).other(post).calls(3, search, naming(c, 2)),
		kept("revealed once", c).calls(3, search, naming(c, 9), one(1, func(r *receipt) {
			r.Challenge.CommitmentRevealed = true
		})),
		none("receipts say revealed, and the node has no strategy", hidden).calls(3, search, naming(c, 0)),
		kept("two of two", c, second).calls(2, search, naming(c, 1)).calls(2, search, naming(second, 1)),
		half("one of two, the other's tools are others", wilsonHalf*7/8, broken, second).
			calls(2, search, naming(broken, 1)).calls(2, search, naming(second, 1)),
		half("one of two, the other was never committed", wilsonHalf, c,
			autonomy.Challenge{Nonce: "nonce-3", Issued: midnight}).calls(3, search, naming(c, 2)),
	}
}

// wilsonHalf is Wilson's lower bound for one of two, from another implementation.
const wilsonHalf = 0.09453120573423074

func strategyCases() []*scored {
	p := plan()
	c := challengeOf("nonce-1", p)
	search := tools(named("search"), tags("arguments"))
	broken := func(name string, n int, edits ...edit) *scored {
		s := strategies.when(name).with(nil, c).calls(n, append([]edit{search, naming(c, 1)}, edits...)...)
		return s.gives(1, 0, 0)
	}
	kept := func(name string, n int, edits ...edit) *scored {
		k := 1 / (1 + 1.959963984540054*1.959963984540054)
		return broken(name, n, edits...).gives(1, k, 15*k)
	}
	relay := func(host, tool string, count int64) func(*receipt) {
		return func(r *receipt) {
			r.Relayed, r.RelayedCount = []interaction.RelayedCall{{Host: host, Tool: tool}}, count
		}
	}
	return []*scored{
		kept("as it says", 8), kept("a relayed tool", 2, one(1, relay(modelHost, "fetch", 1))),
		kept("a failed call tells of no tool", 3, one(1, func(r *receipt) {
			r.Outcome, r.Model.ToolCalls = "failed", nil
			figures(r).ToolCallsMade = unknown
		})),
		broken("too many calls", 9), broken("another tool", 2, one(0, func(r *receipt) {
			r.Model.ToolCalls[0].Tool = "post"
		})),
		broken("a tool without a name", 2, one(0, func(r *receipt) { r.Model.ToolCalls[0].Tool = "" })),
		broken("a hosted tool", 2, one(0, func(r *receipt) { r.Model.HostedTools = []string{"web_search"} })),
		broken("8 hosted tools", 2, one(0, func(r *receipt) {
			r.Model.HostedTools = []string{"search", "search", "search", "search", "search", "search", "search", "search"}
		})),
		broken("more tool calls than are listed", 2, one(0, func(r *receipt) { figures(r).ToolCallsMade = seen(17) })),
		broken("an answer that was not followed", 3, one(1, func(r *receipt) {
			r.Outcome, r.Model.ToolCalls = "not_measured", nil
			figures(r).ToolCallsMade = unknown
		})),
		broken("a relayed tool of another name", 2, one(1, relay(modelHost, "post", 1))),
		broken("a relayed tool of another host", 2, one(1, relay("mcp.example:443", "fetch", 1))),
		broken("more relayed calls than are listed", 2, one(1, relay(modelHost, "fetch", 5))),
		broken("a model call to another host", 3, one(1, to(ownHost, "model-1"))),
		broken("another model", 3, one(1, to(modelHost, "model-2"))),
		broken("no model", 3, one(1, to(modelHost, ""))),
	}
}

func wholeCases() []*scored {
	baseline := usually(autonomy.ModelBaseline{
		Host: modelHost, Model: "model-1", Speed: &autonomy.SpeedBaseline{N: 10, Distribution: dist(60, 4)},
		Texts: []autonomy.TextBaseline{{Class: 3, N: 10, Entropy: dist(8000, 60), Compression: dist(380, 5)}},
	})
	c := challengeOf("nonce-1",
		strategy.Strategy{Tools: []string{"tool0", "tool1", "tool2", "tool3", "tool4"}, Hosts: []string{modelHost},
			Model: "model-1", Calls: strategy.Calls{Min: 10, Max: 100}})
	c.Probes = [][2]string{{"a", "A"}, {"b", "B"}, {"c", "C"}, {"d", "D"}, {"e", "E"}}
	full := func(i int, r *receipt) {
		f := figures(r)
		every(60_000)(i, r)
		took(of(120, 240, 60, 300, 90), of(2000, 4000, 1100, 4900, 1500))(i, r)
		gaps(of(900, 1100, 1000, 1300, 800, 1200))(i, r)
		tools(func(i int) string {
			return []string{"tool0", "tool1", "tool2", "tool3", "tool4"}[i%5]
		}, tags("arguments"))(i, r)
		naming(c, 39)(i, r)
		sampled(min(32768, 3000*int64(i+1)+4096), 8050, 377)(r)
		f.OutputWords, f.DepthRelayed, f.SelfReferences = seen(400+int64(i%7)*50), seen(int64(i%4)), seen(min(1, int64(i)))
		r.Session = interaction.SessionTotals{OpenedMS: midnight, Calls: int64(i + 2), CallsObserved: int64(i + 1),
			BytesOut: 5000 * int64(i+1), BytesOutObserved: 4500 * int64(i+1)}
		if i >= 10 && i < 20 {
			r.Model.Probe = &interaction.Probe{ID: "abcdeABCDE"[i-10 : i-9], Answer: tagOf("answer", i%5)}
		}
	}
	return []*scored{
		whole.when("an agent at work").with(baseline, c).calls(40, full).expect("regularity", 39, wholeCoV, 6, isObserved),
		whole.when("with failures and an own host").with(baseline, c).calls(43, full, one(7, ended("failed")),
			one(15, ended("cut")), one(30, to(ownHost, "m"))).unmeasured("agreement", 4),
		interval.when("9 calls").calls(9, full).unmeasured("regularity", 8),
		interval.when("10 calls").calls(10, full).unmeasured("regularity", 9),
		interval.when("23 calls").calls(23, full).expect("chain", 23, 22, 10, isObserved),
		interval.when("domains of one block").calls(20).other(relayed("a", "b")).expect("domains", 20, 2, 2.4, isObserved),
		interval.when("domains before the first call").other(relayed("a")).calls(20).
			expect("domains", 20, 1, 1.2, isObserved),
		interval.when("half of a minimum is enough without a block").calls(11, gaps(of(900, 1100)),
			took(times(10), times(1000))).expect("regression", 11, 1, 8, isDeclared),
	}
}

// wholeCoV is from another implementation.
const wholeCoV = 0.1609181337948281
