package vectors_test

import (
	"math"
	"strings"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
)

const (
	isObserved  = interaction.StateObserved
	isEstimated = interaction.StateEstimated
	isDeclared  = interaction.StateDeclared
)

func scoreCases() (out []scoreVector) {
	for _, cases := range [][]*scored{inputCases(), timingCases(), recursionCases(), knowledgeCases(), textCases(),
		fatigueCases(), challengeCases(), strategyCases(), wholeCases()} {
		for _, c := range cases {
			out = append(out, c.v)
		}
	}
	return out
}

func inputCases() []*scored {
	long := strings.Repeat("h", 124) + ":443"
	longest := inputs.when("a host of 128 bytes is not believed").calls(1, one(0, to(long, "m"))).nothing(0)
	longest.v.ModelHosts = append(longest.v.ModelHosts, long)
	outcomes := []string{
		interaction.OutcomeCompleted, interaction.OutcomeUnfinished, interaction.OutcomeFailed, interaction.OutcomeCut,
		interaction.OutcomeIndeterminate, interaction.OutcomeNotMeasured,
	}
	covered := func(name string, t interaction.SessionTotals) *scored {
		return coverage.when(name).other(&receipt{Closing: &interaction.Closing{Reason: "ended"}, Session: t}).nothing(0)
	}
	return []*scored{inputs.when("nothing").nothing(0).unmeasured("commitments", 0),
		inputs.when("one call").calls(1).gives(1, 0, 0).unmeasured("chain", 1),
		inputs.when("calls by their outcome").calls(6, func(i int, r *receipt) {
			r.Outcome = outcomes[i]
		}).gives(2, 0, 0), inputs.when("a host that is not believed").calls(3, one(1,
			to(ownHost, "m"))).gives(2, 0, 0), inputs.when("another port is another host").calls(2, one(1,
			to("api.models.example:8443", "m"))).gives(1, 0, 0), inputs.when("a believed host that only failed").calls(2, one(0,
			ended("failed"))).gives(1, 0, 0), longest, inputs.when("posts, and the end").calls(1).other(&receipt{
			Post: &interaction.PostMade{Status: 201}}, &receipt{
			Closing: &interaction.Closing{Reason: "ended"}}).gives(1, 0, 0),
		covered("fewer calls than bytes",
			interaction.SessionTotals{Calls: 4, CallsObserved: 1, BytesOut: 100, BytesOutObserved: 50}), covered(
			"fewer bytes than calls",
			interaction.SessionTotals{Calls: 4, CallsObserved: 3, BytesOut: 100, BytesOutObserved: 50}), covered("no bytes",
			interaction.SessionTotals{Calls: 4, CallsObserved: 3}), covered("no calls",
			interaction.SessionTotals{OpenedMS: midnight})}
}

func timingCases() []*scored {
	rising := took(times(10), times(1000))
	fiftyASecond := usually(speedOf("model-1", 10, 50, 2))
	speeds := func(tokens ...int64) edit { return took(of(tokens...), always(1000)) }
	uneven := func(i int, r *receipt) {
		if i%2 == 1 {
			r.Model.Model = "model-2"
		}
	}
	return []*scored{
		regression.when("7 calls").calls(7, rising).nothing(0),
		regression.when("8 calls on a line").calls(8, rising).gives(8, 1, 8),
		regression.when("near a line").calls(8, took(times(10), of(1000, 2000, 3000, 4000, 5000, 6000, 8000, 7000))).
			gives(8, 1681.0/1764, 8*1681.0/1764),
		regression.when("longer answers take less time").
			calls(8, took(times(10), func(i int) int64 { return int64(9000 - 1000*i) })).gives(8, 0, 0),
		regression.when("equal tokens").calls(8, took(always(10), times(1000))).gives(8, 0, 0),
		regression.when("equal durations").calls(8, took(times(10), always(1000))).gives(8, 0, 0),
		regression.when("estimated tokens").
			calls(8, rising, func(i int, r *receipt) { figures(r).OutputTokens.State = isEstimated }).nothing(0),
		regression.when("of estimated tokens and declared ones the declared count").calls(12, rising,
			func(i int, r *receipt) {
				if i%3 == 2 {
					figures(r).OutputTokens = interaction.Estimated(1)
				}
			}).gives(8, 1, 8),
		regression.when("calls without tokens, or without a duration, do not count").
			calls(12, rising, one(0, func(r *receipt) {
				figures(r).OutputTokens = unknown
			}), one(1, func(r *receipt) {
				figures(r).Duration = unknown
			}), one(2, func(r *receipt) {
				figures(r).OutputTokens = said(0)
			}), one(3, func(r *receipt) { figures(r).Duration = seen(0) })).
			gives(8, 1, 8),
		regression.when("two models, by their calls").calls(8, rising).
			calls(12, took(times(10), func(i int) int64 {
				return int64(20000 - 1000*i)
			}), func(_ int, r *receipt) { r.Model.Model = "model-2" }).gives(20, 0.4, 3.2),
		regression.when("two models, of which one has 7 calls").calls(15, rising, uneven).gives(8, 1, 8),
		regression.when("two models of 7 calls").calls(14, rising, uneven).nothing(0),
		regression.when("models after the 64th").
			calls(72, rising, func(i int, r *receipt) { r.Model.Model = numbered("model-")(min(i, 64)) }).nothing(0),

		speed.when("no baseline").calls(8, speeds(50)).nothing(0),
		speed.when("a baseline for another model").with(usually(speedOf("model-2", 10, 50, 2))).calls(8,
			speeds(50)).nothing(0),
		speed.when("a baseline for another host").with(usually(autonomy.ModelBaseline{Host: ownHost, Model: "model-1",
			Speed: &autonomy.SpeedBaseline{N: 10, Distribution: dist(50, 2)}})).calls(8, speeds(50)).nothing(0),
		speed.when("a baseline of 9 sessions").with(usually(speedOf("model-1", 9, 50, 2))).calls(8, speeds(50)).nothing(0),
		speed.when("a baseline without a speed").
			with(usually(textOf("model-1", 0, 10, dist(7000, 100), dist(400, 5)))).calls(8, speeds(50)).nothing(0),
		speed.when("7 calls").with(fiftyASecond).calls(7, speeds(50)).nothing(7),
		speed.when("at the edges").with(fiftyASecond).calls(8, speeds(44, 44, 44, 56, 56, 56, 43, 57)).gives(8, 0.75, 4.5),
		speed.when("a spread of 0").with(usually(speedOf("model-1", 10, 50, 0))).
			calls(8, speeds(45, 45, 55, 55, 44, 44, 56, 56)).gives(8, 0.5, 3),
		speed.when("16 tokens are enough, 15 are not").with(fiftyASecond).calls(16, took(of(16, 15), of(320, 300))).
			gives(8, 1, 6),
		speed.when("estimated").with(fiftyASecond).
			calls(8, speeds(50), func(i int, r *receipt) { figures(r).OutputTokens.State = isEstimated }).nothing(0),

		regularity.when("9 gaps").calls(10, gaps(always(100))).nothing(9),
		regularity.when("10 equal gaps").calls(11, gaps(always(100))).gives(10, 0, 6),
		regularity.when("gaps of 0").calls(11, gaps(always(0))).gives(10, 0, 6),
		regularity.when("between the cut-offs").calls(11, gaps(of(50, 50, 50, 50, 50, 150, 150, 150, 150, 150))).
			gives(10, math.Sqrt(25000.0/9)/100, 12*(1-math.Sqrt(25000.0/9)/100)),
		regularity.when("below 0.5").calls(11, gaps(of(90, 110))).gives(10, math.Sqrt(1000.0/9)/100, 6),
		regularity.when("above 1").calls(11, gaps(of(0, 0, 0, 0, 0, 0, 0, 0, 0, 1000))).gives(10, math.Sqrt(10), 0),
		regularity.when("the first call has no gap, whatever it says").
			calls(10, func(_ int, r *receipt) { figures(r).Turnaround = seen(100) }).nothing(9),
		regularity.when("several calls were open").
			calls(11, gaps(always(100)), one(5, func(r *receipt) { figures(r).Turnaround = unknown })).nothing(9),
		regularity.when("after a failed call there is no gap").calls(12, gaps(always(100)), one(5, ended("failed"))).
			nothing(9),
		regularity.when("after a call to an own host there is no gap").
			calls(12, gaps(always(100)), one(5, to(ownHost, "m"))).nothing(9),
		regularity.when("an unfinished answer is one").calls(11, gaps(always(100)), one(5, ended("unfinished"))).
			gives(10, 0, 6),
		regularity.when("a post between two calls changes nothing").calls(1).
			other(&receipt{Post: &interaction.PostMade{Status: 201}}).
			calls(10, func(_ int, r *receipt) { figures(r).Turnaround = seen(100) }).gives(10, 0, 6),
	}
}

func recursionCases() []*scored {
	search := tools(named("search"), tags("arguments"))
	linked := func(links float64) float64 { return 10 * min(1, math.Log(1+links)/math.Log(17)) }
	references := func(n func(int) int64) edit {
		return func(i int, r *receipt) { figures(r).SelfReferences = seen(n(i)) }
	}
	deep := func(n int64) edit {
		return func(i int, r *receipt) { figures(r).DepthRelayed = seen(min(n, int64(i))) }
	}
	return []*scored{
		chain.when("no tools").calls(2).gives(2, 0, 0),
		chain.when("3 links").calls(4, search).gives(4, 3, linked(3)),
		chain.when("16 links").calls(17, search).gives(17, 16, 10),
		chain.when("17 links").calls(18, search).gives(18, 17, 10),
		chain.when("the same tool and arguments count once").
			calls(6, tools(named("search"), named(tagOf("arguments", 0)))).gives(6, 1, linked(1)),
		chain.when("the same arguments for another tool are another call").calls(4,
			tools(numbered("tool"), named(tagOf("arguments", 0)))).gives(4, 3, linked(3)),
		chain.when("a repetition in the middle takes nothing away").
			calls(5, search, one(1, func(r *receipt) { r.Model.ToolCalls[0].Arguments = tagOf("arguments", 0) })).
			gives(5, 3, linked(3)),
		chain.when("no name, or no arguments").
			calls(5, search, one(0, func(r *receipt) {
				r.Model.ToolCalls[0].Tool = ""
			}), one(1, func(r *receipt) { r.Model.ToolCalls[0].Arguments = "" })).
			gives(5, 2, linked(2)),
		chain.when("no id").calls(5, search, one(1, func(r *receipt) { r.Model.ToolCalls[0].ID = "" })).
			gives(5, 2, linked(2)),
		chain.when("a call without an id makes the next not fresh").calls(2, search, one(0, func(r *receipt) {
			r.Model.ToolCalls = []interaction.ToolCall{{Tool: "search", Arguments: tagOf("a", 1)},
				{ID: tagOf("call", 0), Tool: "search", Arguments: tagOf("a", 1)}}
		})).gives(2, 0, 0),
		chain.when("an id that nobody made").
			calls(3, one(2, func(r *receipt) { r.Model.ReturnedCalls = []string{tagOf("call", 9)} })).gives(3, 0, 0),
		chain.when("an id of an own host").calls(3, search, one(0, to(ownHost, "m"))).gives(2, 1, linked(1)),
		chain.when("an id of an answer that was cut").calls(3, search, one(0, ended("cut"))).gives(2, 1, linked(1)),
		chain.when("an id of its own answer").
			calls(2, search, one(1, func(r *receipt) { r.Model.ReturnedCalls = []string{tagOf("call", 1)} })).
			gives(2, 0, 0),
		chain.when("an id twice, of which the first counts").
			calls(4, search, one(2, func(r *receipt) {
				r.Model.ToolCalls[0].ID = tagOf("call", 0)
			}), one(3, func(r *receipt) { r.Model.ReturnedCalls = []string{tagOf("call", 0)} })).
			gives(4, 2, linked(2)),
		chain.when("the longest of two branches").
			calls(6, search, one(2, func(r *receipt) {
				r.Model.ReturnedCalls = []string{tagOf("call", 0)}
			}), one(5, func(r *receipt) { r.Model.ReturnedCalls = []string{tagOf("call", 1), tagOf("call", 4)} })).
			gives(6, 4, linked(4)),
		chain.when("the longest of two branches, named first").
			calls(6, search, one(2, func(r *receipt) {
				r.Model.ReturnedCalls = []string{tagOf("call", 0)}
			}), one(5, func(r *receipt) { r.Model.ReturnedCalls = []string{tagOf("call", 4), tagOf("call", 1)} })).
			gives(6, 4, linked(4)),

		selfReferences.when("one each").calls(5, references(of(0, 1, 1, 1, 1))).gives(5, 1, 8),
		selfReferences.when("some").calls(5, references(of(0, 1, 0, 0, 0))).gives(5, 0.25, 2),
		selfReferences.when("more than calls").calls(3, references(of(0, 4, 4))).gives(3, 4, 8),
		selfReferences.when("one call").calls(1, references(of(1))).nothing(1),
		selfReferences.when("not measured").calls(5).nothing(0),
		selfReferences.when("measured in one call").
			calls(5, one(1, func(r *receipt) { figures(r).SelfReferences = seen(1) })).nothing(1),
		selfReferences.when("measured in some").
			calls(5, references(of(1)), one(3, func(r *receipt) { figures(r).SelfReferences = unknown })).
			gives(4, 1, 8),
		selfReferences.when("after a call to an own host").calls(6, references(of(1)), one(3, to(ownHost, "m"))).
			gives(3, 0.75, 6),

		depth.when("0").calls(3, deep(0)).gives(3, 0, 0),
		depth.when("3").calls(5, deep(3)).gives(5, 3, 5.25),
		depth.when("5").calls(6, deep(5)).gives(6, 5, 7),
		depth.when("measured in one call").calls(5, one(4, func(r *receipt) { figures(r).DepthRelayed = seen(4) })).
			nothing(1),
		depth.when("as the agent says").calls(5, func(i int, r *receipt) { figures(r).Depth = said(4) }).nothing(0),
		depth.when("after a call to an own host").calls(6, deep(5), one(2, to(ownHost, "m"))).gives(2, 1, 1.75),
	}
}

func knowledgeCases() []*scored {
	probed := func(ids, answers string) edit {
		return func(i int, r *receipt) {
			r.Model.Probe = &interaction.Probe{ID: ids[i : i+1]}
			if a := answers[i : i+1]; a != "-" {
				r.Model.Probe.Answer = tagOf(a, 0)
			}
		}
	}
	agree := func(name, ids, answers string) *scored {
		return agreement.when(name).calls(len(ids), probed(ids, answers))
	}
	five := challengeWithProbes("aA", "bB", "cC", "dD", "eE")
	words := func(words, gap func(int) int64) edit {
		return func(i int, r *receipt) {
			figures(r).OutputWords = seen(words(i))
			gaps(gap)(i, r)
		}
	}
	return []*scored{domains.when("none").calls(2).gives(2, 0, 0),
		domains.when("hosts").calls(1).other(relayed("a", "b", "a")).gives(1, 2, 2.4),
		domains.when("five hosts").calls(1).other(relayed("a", "b", "c", "d"), relayed("e", "f")).gives(1, 6, 6),
		domains.when("tools").calls(4, tools(numbered("tool"), tags("a"))).expect("domains", 4, 3, 3.6, isDeclared),
		domains.when("a tool whose result does not come back").calls(1, tools(numbered("tool"), tags("a"))).gives(1, 0, 0),
		domains.when("a repeated call is of its kind").calls(3,
			tools(named("search"), named(tagOf("a", 0)))).expect("domains", 3, 1, 1.2,
			isDeclared), domains.when("hosts and tools").other(relayed("a")).calls(3,
			tools(numbered("tool"), tags("a"))).expect("domains", 3, 3, 3.6,
			isDeclared), domains.when("five hosts, and tools").other(relayed("a", "b", "c", "d"), relayed("e")).calls(3,
			tools(numbered("tool"), tags("a"))).gives(3, 7, 6), domains.when("the first 16").calls(20,
			tools(numbered("tool"), tags("a"))).other(relayed("z")).expect("domains", 20, 16, 6,
			isDeclared), domains.when("hosts of a failed call").calls(2, one(1, func(r *receipt) {
			r.Outcome, r.Relayed, r.RelayedCount = "failed", relayed("a").Relayed, 1
		})).gives(1, 1, 1.2), domains.when("hosts, and no answered call").other(relayed("b", "a")).nothing(0),

		agree("4 pairs", "aAbBcCdD", "11223344").with(nil, five).nothing(4),
		agree("5 pairs that agree", "abcdeABCDE", "1234512345").with(nil, five).gives(5, 1, 8),
		agree("one answer to all", "abcdeABCDE", "1111111111").with(nil, five).gives(5, 0.2, 1.6),
		agree("one answer to two pairs", "abcdeABCDE", "1134511345").with(nil, five).gives(5, 0.8, 6.4),
		agree("3 of 5 pairs agree", "abcdeABCDE", "1234512367").with(nil, five).gives(5, 0.6, 4.8),
		agree("an answer is missing", "abcdeABCDE", "123451234-").with(nil, five).nothing(4),
		agree("the other answer is missing", "abcdeABCDE", "1234-12345").with(nil, five).nothing(4),
		agree("the first answer counts", "abcdeABCDEE", "12345123456").with(nil, five).gives(5, 1, 8),
		agree("an answer after one that is missing", "abcdeABCDEE", "123451234-5").with(nil, five).gives(5, 1, 8),
		agree("pairs that the node did not give", "abcdeABCDE", "1234512345").nothing(0),
		agree("pairs of two challenges", "abcdeABCDE", "1234512345").
			with(nil, challengeWithProbes("aA", "bB", "cC"), challengeWithProbes("dD", "eE")).gives(5, 1, 8),
		agreement.when("answers of an own host").with(nil, five).
			calls(10, probed("abcdeABCDE", "1234512345"), one(9, to(ownHost, "m"))).nothing(4),

		superhuman.when("1,999 words").calls(2, words(always(1999), always(1))).nothing(0),
		superhuman.when("2,000 words in 2 minutes").calls(2, words(always(2000), always(2*minute))).gives(1, 0, 0),
		superhuman.when("2,000 words, sooner").calls(2, words(always(2000), always(2*minute-1))).gives(1, 1, 1.2),
		superhuman.when("2,000 words at once").calls(2, words(always(2000), always(0))).gives(1, 1, 1.2),
		superhuman.when("words of several answers").calls(10, words(always(700), always(1000))).gives(3, 3, 3.6),
		superhuman.when("six blocks").calls(7, words(always(2500), always(1000))).gives(6, 6, 6),
		superhuman.when("a slow answer slows its block").
			calls(5, words(always(1000), of(1000, 3*minute, 1000, 1000))).gives(2, 1, 1.2),
		superhuman.when("words that were not measured").
			calls(4, words(always(2000), always(1000)), one(1, func(r *receipt) { figures(r).OutputWords = unknown })).
			gives(2, 2, 2.4),
		superhuman.when("nor the gap after them").
			calls(4, words(always(1000), of(1000, 10*minute, 1000)), one(1, func(r *receipt) {
				figures(r).OutputWords = unknown
			})).
			gives(1, 1, 1.2),
		superhuman.when("no gap, no block").calls(4, words(always(2000), always(1000)), one(1, ended("failed"))).
			gives(1, 1, 1.2),
	}
}
