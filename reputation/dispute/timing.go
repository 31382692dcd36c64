package dispute

import (
	"cmp"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
)

// Slack is the tolerance for times in receipts, in ms. A clock set back by more within a session can lose.
const Slack = 30_000

// callerSlack is the tolerance for a receipt before the issue of its challenge, in milliseconds. The node issues
// challenges to sidecars with slow clocks as long as it accepts their caller tokens.
const callerSlack = Slack + int64((interaction.CallerLifetime+evidence.MaxSkew)/time.Millisecond)

type timing struct {
	calls   []span           // model calls
	checked []span           // requests with a measured turnaround: from arrival to sending
	asked   map[string]int64 // the request's time at the model that made a tool call, by the call's tag
	brought []result
}

type span struct{ from, to int64 }

type result struct {
	call string
	sent int64
}

func (r *Record) addTiming(c *interaction.Receipt) {
	for _, ch := range r.challenges {
		if c.Challenge != nil && c.Challenge.ChallengeNonce == ch.Nonce && c.IssuedAt*1000+callerSlack < ch.Issued {
			r.find(TypeTiming, ReasonChallengeFirst)
		}
	}
	m, at := c.Model, c.Timing
	if m == nil || at.LLMStart == 0 {
		return // no call was sent
	}
	f, measured := &m.Figures, func(f interaction.Figure) bool { return f.State == interaction.StateObserved }
	if at.LLMEnd != 0 {
		r.timing.calls = append(r.timing.calls, span{at.LLMStart, at.LLMEnd})
		if measured(f.Duration) && f.Duration.Value > at.LLMEnd-at.LLMStart+Slack {
			r.find(TypeTiming, ReasonDuration)
		}
	}
	if measured(f.FirstDelta) && measured(f.Duration) && f.FirstDelta.Value > f.Duration.Value {
		r.find(TypeTiming, ReasonFirstDelta)
	}
	if measured(f.Turnaround) {
		r.timing.checked = append(r.timing.checked, span{at.RequestReceived, at.LLMStart})
		if f.Turnaround.Value > at.LLMStart-c.Session.OpenedMS+Slack {
			r.find(TypeTiming, ReasonTurnaround)
		}
	}
	for _, call := range m.ToolCalls {
		if before, ok := r.timing.asked[call.ID]; call.ID != "" && (!ok || at.LLMStart < before) {
			r.timing.asked[call.ID] = at.LLMStart
		}
	}
	for _, call := range m.ReturnedCalls {
		r.timing.brought = append(r.timing.brought, result{call, at.LLMStart})
	}
}

func (r *Record) endTiming() (found, doubt string) {
	t := &r.timing
	for _, one := range t.brought {
		if asked, ok := t.asked[one.call]; ok && one.sent+Slack < asked {
			return ReasonResultFirst, ""
		}
	}
	if overlaps(t.calls, t.checked) {
		return ReasonOverlap, ""
	}
	return "", ""
}

// overlaps reports whether a call was open throughout a request whose receipt excludes that.
func overlaps(calls, checked []span) bool {
	calls = slices.Clone(calls)
	slices.SortFunc(calls, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	// longest[n] is the latest end among the first n calls.
	longest := make([]int64, len(calls)+1)
	for i, c := range calls {
		longest[i+1] = max(longest[i], c.to)
	}
	for _, one := range checked {
		before, _ := slices.BinarySearchFunc(calls, one.from-Slack+1, func(c span, at int64) int {
			return cmp.Compare(c.from, at)
		})
		if longest[before] >= one.to+Slack {
			return true
		}
	}
	return false
}
