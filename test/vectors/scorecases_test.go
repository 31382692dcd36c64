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
	longest := newScored("input: a host of 128 bytes is not believed").calls(1, one(0, to(long, "m"))).nothing("domains",
		0)
	longest.v.ModelHosts = append(longest.v.ModelHosts, long)
	outcomes := []string{
		interaction.OutcomeCompleted, interaction.OutcomeUnfinished, interaction.OutcomeFailed, interaction.OutcomeCut,
		interaction.OutcomeIndeterminate, interaction.OutcomeNotMeasured,
	}
	coverage := func(name string, t interaction.SessionTotals) *scored {
		return newScored("coverage: "+name).other(
			&receipt{Closing: &interaction.Closing{Reason: "ended"}, Session: t}).nothing("domains", 0)
	}
	return []*scored{
		newScored("input: nothing").nothing("domains", 0).nothing("commitments", 0),
		newScored("input: one call").calls(1).expect("domains", 1, 0, 0, isObserved).nothing("chain", 1),
		newScored("input: calls by their outcome").calls(6, func(i int, r *receipt) {
			r.Outcome = outcomes[i]
		}).expect("domains", 2, 0, 0, isObserved),
		newScored("input: a host that is not believed").calls(3, one(1, to(ownHost, "m"))).expect("domains", 2, 0, 0,
			isObserved),
		newScored("input: another port is another host").calls(2,
			one(1, to("api.models.example:8443", "m"))).expect("domains", 1, 0, 0, isObserved),
		newScored("input: a believed host that only failed").calls(2, one(0, ended("failed"))).expect("domains", 1, 0, 0,
			isObserved),
		longest,
		newScored("input: posts, and the end").calls(1).other(&receipt{Post: &interaction.PostMade{Status: 201}},
			&receipt{Closing: &interaction.Closing{Reason: "ended"}}).
			expect("domains", 1, 0, 0, isObserved),
		coverage("fewer calls than bytes",
			interaction.SessionTotals{Calls: 4, CallsObserved: 1, BytesOut: 100, BytesOutObserved: 50}),
		coverage("fewer bytes than calls",
			interaction.SessionTotals{Calls: 4, CallsObserved: 3, BytesOut: 100, BytesOutObserved: 50}),
		coverage("no bytes", interaction.SessionTotals{Calls: 4, CallsObserved: 3}),
		coverage("no calls", interaction.SessionTotals{OpenedMS: midnight}),
	}
}

func timingCases() []*scored {
	rising := took(times(10), times(1000))
	fiftyASecond := usually(speedOf("model-1", 10, 50, 2))
	speed := func(tokens ...int64) func(int, *receipt) { return took(of(tokens...), always(1000)) }
	uneven := func(i int, r *receipt) {
		if i%2 == 1 {
			r.Model.Model = "model-2"
		}
	}
	return []*scored{
		newScored("regression: 7 calls").calls(7, rising).nothing("regression", 0),
		newScored("regression: 8 calls on a line").calls(8, rising).expect("regression", 8, 1, 8, isDeclared),
		newScored("regression: near a line").calls(8, took(times(10), of(1000, 2000, 3000, 4000, 5000, 6000, 8000, 7000))).
			expect("regression", 8, 1681.0/1764, 8*1681.0/1764, isDeclared),
		newScored("regression: longer answers take less time").calls(8, took(times(10), func(i int) int64 {
			return int64(9000 - 1000*i)
		})).expect("regression", 8, 0, 0, isDeclared),
		newScored("regression: equal tokens").calls(8, took(always(10), times(1000))).expect("regression", 8, 0, 0,
			isDeclared),
		newScored("regression: equal durations").calls(8, took(times(10), always(1000))).expect("regression", 8, 0, 0,
			isDeclared),
		newScored("regression: estimated tokens").calls(8, rising, func(i int, r *receipt) {
			figures(r).OutputTokens.State = isEstimated
		}).nothing("regression", 0),
		newScored("regression: of estimated tokens and declared ones the declared count").calls(12, rising,
			func(i int, r *receipt) {
				if i%3 == 2 {
					figures(r).OutputTokens = interaction.Estimated(1)
				}
			}).expect("regression", 8, 1, 8, isDeclared),
		newScored("regression: calls without tokens, or without a duration, do not count").calls(12, rising,
			one(0, func(r *receipt) {
				figures(r).OutputTokens = unknown
			}), one(1, func(r *receipt) { figures(r).Duration = unknown }),
			one(2, func(r *receipt) {
				figures(r).OutputTokens = said(0)
			}), one(3, func(r *receipt) { figures(r).Duration = seen(0) })).expect("regression", 8, 1, 8, isDeclared),
		newScored("regression: two models, by their calls").calls(8, rising).calls(12, took(times(10), func(i int) int64 {
			return int64(20000 - 1000*i)
		}), func(_ int, r *receipt) { r.Model.Model = "model-2" }).
			expect("regression", 20, 0.4, 3.2, isDeclared),
		newScored("regression: two models, of which one has 7 calls").calls(15, rising, uneven).expect("regression", 8, 1, 8,
			isDeclared),
		newScored("regression: two models of 7 calls").calls(14, rising, uneven).nothing("regression", 0),
		newScored("regression: models after the 64th").calls(72, rising, func(i int, r *receipt) {
			r.Model.Model = numbered("model-")(min(i, 64))
		}).nothing("regression", 0),

		newScored("speed: no baseline").calls(8, speed(50)).nothing("speed", 0),
		newScored("speed: a baseline for another model").with(usually(speedOf("model-2", 10, 50, 2))).calls(8,
			speed(50)).nothing("speed", 0),
		newScored("speed: a baseline for another host").with(
			usually(autonomy.ModelBaseline{Host: ownHost, Model: "model-1",
				Speed: &autonomy.SpeedBaseline{N: 10, Distribution: dist(50, 2)}})).
			calls(8, speed(50)).nothing("speed", 0),
		newScored("speed: a baseline of 9 sessions").with(usually(speedOf("model-1", 9, 50, 2))).calls(8,
			speed(50)).nothing("speed", 0),
		newScored("speed: a baseline without a speed").with(
			usually(textOf("model-1", 0, 10, dist(7000, 100), dist(400, 5)))).calls(8, speed(50)).nothing("speed", 0),
		newScored("speed: 7 calls").with(fiftyASecond).calls(7, speed(50)).nothing("speed", 7),
		newScored("speed: at the edges").with(fiftyASecond).calls(8, speed(44, 44, 44, 56, 56, 56, 43, 57)).expect("speed", 8,
			0.75, 4.5, isDeclared),
		newScored("speed: a spread of 0").with(usually(speedOf("model-1", 10, 50, 0))).calls(8,
			speed(45, 45, 55, 55, 44, 44, 56, 56)).expect("speed", 8, 0.5, 3, isDeclared),
		newScored("speed: 16 tokens are enough, 15 are not").with(fiftyASecond).calls(16,
			took(of(16, 15), of(320, 300))).expect("speed", 8, 1, 6, isDeclared),
		newScored("speed: estimated").with(fiftyASecond).calls(8, speed(50), func(i int, r *receipt) {
			figures(r).OutputTokens.State = isEstimated
		}).nothing("speed", 0),

		newScored("regularity: 9 gaps").calls(10, gaps(always(100))).nothing("regularity", 9),
		newScored("regularity: 10 equal gaps").calls(11, gaps(always(100))).expect("regularity", 10, 0, 6, isObserved),
		newScored("regularity: gaps of 0").calls(11, gaps(always(0))).expect("regularity", 10, 0, 6, isObserved),
		newScored("regularity: between the cut-offs").calls(11, gaps(of(50, 50, 50, 50, 50, 150, 150, 150, 150, 150))).
			expect("regularity", 10, math.Sqrt(25000.0/9)/100, 12*(1-math.Sqrt(25000.0/9)/100), isObserved),
		newScored("regularity: below 0.5").calls(11, gaps(of(90, 110))).expect("regularity", 10, math.Sqrt(1000.0/9)/100, 6,
			isObserved),
		newScored("regularity: above 1").calls(11, gaps(of(0, 0, 0, 0, 0, 0, 0, 0, 0, 1000))).expect("regularity", 10,
			math.Sqrt(10), 0, isObserved),
		newScored("regularity: the first call has no gap, whatever it says").calls(10, func(_ int, r *receipt) {
			figures(r).Turnaround = seen(100)
		}).nothing("regularity", 9),
		newScored("regularity: several calls were open").calls(11, gaps(always(100)), one(5, func(r *receipt) {
			figures(r).Turnaround = unknown
		})).nothing("regularity", 9),
		newScored("regularity: after a failed call there is no gap").calls(12, gaps(always(100)),
			one(5, ended("failed"))).nothing("regularity", 9),
		newScored("regularity: after a call to an own host there is no gap").calls(12, gaps(always(100)),
			one(5, to(ownHost, "m"))).nothing("regularity", 9),
		newScored("regularity: an unfinished answer is one").calls(11, gaps(always(100)),
			one(5, ended("unfinished"))).expect("regularity", 10, 0, 6, isObserved),
		newScored("regularity: a post between two calls changes nothing").calls(1).other(
			&receipt{Post: &interaction.PostMade{Status: 201}}).
			calls(10, func(_ int, r *receipt) { figures(r).Turnaround = seen(100) }).expect("regularity", 10, 0, 6, isObserved),
	}
}

func recursionCases() []*scored {
	search := tools(named("search"), tags("arguments"))
	chain := func(links float64) float64 { return 10 * min(1, math.Log(1+links)/math.Log(17)) }
	references := func(n func(int) int64) func(int, *receipt) {
		return func(i int, r *receipt) { figures(r).SelfReferences = seen(n(i)) }
	}
	deep := func(n int64) func(int, *receipt) {
		return func(i int, r *receipt) { figures(r).DepthRelayed = seen(min(n, int64(i))) }
	}
	return []*scored{
		newScored("chain: no tools").calls(2).expect("chain", 2, 0, 0, isObserved),
		newScored("chain: 3 links").calls(4, search).expect("chain", 4, 3, chain(3), isObserved),
		newScored("chain: 16 links").calls(17, search).expect("chain", 17, 16, 10, isObserved),
		newScored("chain: 17 links").calls(18, search).expect("chain", 18, 17, 10, isObserved),
		newScored("chain: the same tool and arguments count once").calls(6,
			tools(named("search"), named(tagOf("arguments", 0)))).expect("chain", 6, 1, chain(1), isObserved),
		newScored("chain: the same arguments for another tool are another call").calls(4,
			tools(numbered("tool"), named(tagOf("arguments", 0)))).expect("chain", 4, 3, chain(3), isObserved),
		newScored("chain: a repetition in the middle takes nothing away").calls(5, search, one(1, func(r *receipt) {
			r.Model.ToolCalls[0].Arguments = tagOf("arguments", 0)
		})).expect("chain", 5, 3, chain(3), isObserved),
		newScored("chain: no name, or no arguments").calls(5, search, one(0, func(r *receipt) {
			r.Model.ToolCalls[0].Tool = ""
		}), one(1, func(r *receipt) { r.Model.ToolCalls[0].Arguments = "" })).
			expect("chain", 5, 2, chain(2), isObserved),
		newScored("chain: no id").calls(5, search, one(1, func(r *receipt) {
			r.Model.ToolCalls[0].ID = ""
		})).expect("chain", 5, 2, chain(2), isObserved),
		newScored("chain: a call without an id makes the next not fresh").calls(2, search, one(0, func(r *receipt) {
			r.Model.ToolCalls = []interaction.ToolCall{{Tool: "search", Arguments: tagOf("a", 1)},
				{ID: tagOf("call", 0), Tool: "search", Arguments: tagOf("a", 1)}}
		})).expect("chain", 2, 0, 0, isObserved),
		newScored("chain: an id that nobody made").calls(3, one(2, func(r *receipt) {
			r.Model.ReturnedCalls = []string{tagOf("call", 9)}
		})).expect("chain", 3, 0, 0, isObserved),
		newScored("chain: an id of an own host").calls(3, search, one(0, to(ownHost, "m"))).expect("chain", 2, 1, chain(1),
			isObserved),
		newScored("chain: an id of an answer that was cut").calls(3, search, one(0, ended("cut"))).expect("chain", 2, 1,
			chain(1), isObserved),
		newScored("chain: an id of its own answer").calls(2, search, one(1, func(r *receipt) {
			r.Model.ReturnedCalls = []string{tagOf("call", 1)}
		})).expect("chain", 2, 0, 0, isObserved),
		newScored("chain: an id twice, of which the first counts").calls(4, search, one(2, func(r *receipt) {
			r.Model.ToolCalls[0].ID = tagOf("call", 0)
		}),
			one(3, func(r *receipt) {
				r.Model.ReturnedCalls = []string{tagOf("call", 0)}
			})).expect("chain", 4, 2, chain(2), isObserved),
		newScored("chain: the longest of two branches").calls(6, search, one(2, func(r *receipt) {
			r.Model.ReturnedCalls = []string{tagOf("call", 0)}
		}),
			one(5, func(r *receipt) {
				r.Model.ReturnedCalls = []string{tagOf("call", 1), tagOf("call", 4)}
			})).expect("chain", 6, 4, chain(4), isObserved),
		newScored("chain: the longest of two branches, named first").calls(6, search, one(2, func(r *receipt) {
			r.Model.ReturnedCalls = []string{tagOf("call", 0)}
		}),
			one(5, func(r *receipt) {
				r.Model.ReturnedCalls = []string{tagOf("call", 4), tagOf("call", 1)}
			})).expect("chain", 6, 4, chain(4), isObserved),

		newScored("self-references: one each").calls(5, references(of(0, 1, 1, 1, 1))).expect("self_references", 5, 1, 8,
			isObserved),
		newScored("self-references: some").calls(5, references(of(0, 1, 0, 0, 0))).expect("self_references", 5, 0.25, 2,
			isObserved),
		newScored("self-references: more than calls").calls(3, references(of(0, 4, 4))).expect("self_references", 3, 4, 8,
			isObserved),
		newScored("self-references: one call").calls(1, references(of(1))).nothing("self_references", 1),
		newScored("self-references: not measured").calls(5).nothing("self_references", 0),
		newScored("self-references: measured in one call").calls(5, one(1, func(r *receipt) {
			figures(r).SelfReferences = seen(1)
		})).nothing("self_references", 1),
		newScored("self-references: measured in some").calls(5, references(of(1)), one(3, func(r *receipt) {
			figures(r).SelfReferences = unknown
		})).expect("self_references", 4, 1, 8, isObserved),
		newScored("self-references: after a call to an own host").calls(6, references(of(1)),
			one(3, to(ownHost, "m"))).expect("self_references", 3, 0.75, 6, isObserved),

		newScored("depth: 0").calls(3, deep(0)).expect("depth", 3, 0, 0, isObserved),
		newScored("depth: 3").calls(5, deep(3)).expect("depth", 5, 3, 5.25, isObserved),
		newScored("depth: 5").calls(6, deep(5)).expect("depth", 6, 5, 7, isObserved),
		newScored("depth: measured in one call").calls(5, one(4, func(r *receipt) {
			figures(r).DepthRelayed = seen(4)
		})).nothing("depth", 1),
		newScored("depth: as the agent says").calls(5, func(i int, r *receipt) {
			figures(r).Depth = said(4)
		}).nothing("depth", 0),
		newScored("depth: after a call to an own host").calls(6, deep(5), one(2, to(ownHost, "m"))).expect("depth", 2, 1,
			1.75, isObserved),
	}
}

func knowledgeCases() []*scored {
	relayed := func(hosts ...string) *receipt {
		r := &receipt{Post: &interaction.PostMade{Status: 201}, RelayedCount: int64(len(hosts))}
		for _, h := range hosts {
			r.Relayed = append(r.Relayed, interaction.RelayedCall{Host: h, Tool: "t"})
		}
		return r
	}
	probed := func(ids, answers string) func(int, *receipt) {
		return func(i int, r *receipt) {
			r.Model.Probe = &interaction.Probe{ID: ids[i : i+1]}
			if a := answers[i : i+1]; a != "-" {
				r.Model.Probe.Answer = tagOf(a, 0)
			}
		}
	}
	agree := func(name, ids, answers string) *scored {
		return newScored("agreement: "+name).calls(len(ids), probed(ids, answers))
	}
	five := challengeWithProbes("aA", "bB", "cC", "dD", "eE")
	words := func(words, gap func(int) int64) func(int, *receipt) {
		return func(i int, r *receipt) {
			figures(r).OutputWords = seen(words(i))
			gaps(gap)(i, r)
		}
	}
	return []*scored{
		newScored("domains: none").calls(2).expect("domains", 2, 0, 0, isObserved),
		newScored("domains: hosts").calls(1).other(relayed("a", "b", "a")).expect("domains", 1, 2, 2.4, isObserved),
		newScored("domains: five hosts").calls(1).other(relayed("a", "b", "c", "d"), relayed("e", "f")).expect("domains", 1,
			6, 6, isObserved),
		newScored("domains: tools").calls(4, tools(numbered("tool"), tags("a"))).expect("domains", 4, 3, 3.6, isDeclared),
		newScored("domains: a tool whose result does not come back").calls(1,
			tools(numbered("tool"), tags("a"))).expect("domains", 1, 0, 0, isObserved),
		newScored("domains: a repeated call is of its kind").calls(3,
			tools(named("search"), named(tagOf("a", 0)))).expect("domains", 3, 1, 1.2, isDeclared),
		newScored("domains: hosts and tools").other(relayed("a")).calls(3,
			tools(numbered("tool"), tags("a"))).expect("domains", 3, 3, 3.6, isDeclared),
		newScored("domains: five hosts, and tools").other(relayed("a", "b", "c", "d"), relayed("e")).calls(3,
			tools(numbered("tool"), tags("a"))).expect("domains", 3, 7, 6, isObserved),
		newScored("domains: the first 16").calls(20, tools(numbered("tool"), tags("a"))).other(relayed("z")).expect("domains",
			20, 16, 6, isDeclared),
		newScored("domains: hosts of a failed call").calls(2, one(1, func(r *receipt) {
			r.Outcome, r.Relayed, r.RelayedCount = "failed", relayed("a").Relayed, 1
		})).expect("domains", 1, 1, 1.2, isObserved),
		newScored("domains: hosts, and no answered call").other(relayed("b", "a")).nothing("domains", 0),

		agree("4 pairs", "aAbBcCdD", "11223344").with(nil, five).nothing("agreement", 4),
		agree("5 pairs that agree", "abcdeABCDE", "1234512345").with(nil, five).expect("agreement", 5, 1, 8, isObserved),
		agree("3 of 5 pairs agree", "abcdeABCDE", "1234512367").with(nil, five).expect("agreement", 5, 0.6, 4.8, isObserved),
		agree("an answer is missing", "abcdeABCDE", "123451234-").with(nil, five).nothing("agreement", 4),
		agree("the other answer is missing", "abcdeABCDE", "1234-12345").with(nil, five).nothing("agreement", 4),
		agree("the first answer counts", "abcdeABCDEE", "12345123456").with(nil, five).expect("agreement", 5, 1, 8,
			isObserved),
		agree("an answer after one that is missing", "abcdeABCDEE", "123451234-5").with(nil, five).expect("agreement", 5, 1,
			8, isObserved),
		agree("pairs that the node did not give", "abcdeABCDE", "1234512345").nothing("agreement", 0),
		agree("pairs of two challenges", "abcdeABCDE", "1234512345").with(nil, challengeWithProbes("aA", "bB", "cC"),
			challengeWithProbes("dD", "eE")).expect("agreement", 5, 1, 8, isObserved),
		newScored("agreement: answers of an own host").with(nil, five).calls(10, probed("abcdeABCDE", "1234512345"),
			one(9, to(ownHost, "m"))).nothing("agreement", 4),

		newScored("superhuman: 1,999 words").calls(2, words(always(1999), always(1))).nothing("superhuman", 0),
		newScored("superhuman: 2,000 words in 2 minutes").calls(2, words(always(2000), always(2*minute))).expect("superhuman",
			1, 0, 0, isObserved),
		newScored("superhuman: 2,000 words, sooner").calls(2, words(always(2000), always(2*minute-1))).expect("superhuman", 1,
			1, 1.2, isObserved),
		newScored("superhuman: 2,000 words at once").calls(2, words(always(2000), always(0))).expect("superhuman", 1, 1, 1.2,
			isObserved),
		newScored("superhuman: words of several answers").calls(10, words(always(700), always(1000))).expect("superhuman", 3,
			3, 3.6, isObserved),
		newScored("superhuman: six blocks").calls(7, words(always(2500), always(1000))).expect("superhuman", 6, 6, 6,
			isObserved),
		newScored("superhuman: a slow answer slows its block").calls(5,
			words(always(1000), of(1000, 3*minute, 1000, 1000))).expect("superhuman", 2, 1, 1.2, isObserved),
		newScored("superhuman: words that were not measured").calls(4, words(always(2000), always(1000)),
			one(1, func(r *receipt) {
				figures(r).OutputWords = unknown
			})).expect("superhuman", 2, 2, 2.4, isObserved),
		newScored("superhuman: nor the gap after them").calls(4, words(always(1000), of(1000, 10*minute, 1000)),
			one(1, func(r *receipt) {
				figures(r).OutputWords = unknown
			})).
			expect("superhuman", 1, 1, 1.2, isObserved),
		newScored("superhuman: no gap, no block").calls(4, words(always(2000), always(1000)),
			one(1, ended("failed"))).expect("superhuman", 1, 1, 1.2, isObserved),
	}
}
