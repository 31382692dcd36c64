package verification_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/reputation/verification"
)

type witness struct {
	a        *agent
	served   []servedCall
	received []receivedTurn
	asked    int // how many calls had been served when the follow-up was asked; -1 before
}

type servedCall struct{ tool, query, text, canary string }

type receivedTurn struct {
	turn verification.Turn
	at   time.Time
}

func (w *witness) call(random *rand.Rand) {
	tool, query := verification.ToolServers, ""
	if random.IntN(2) == 0 {
		tool, query = verification.ToolSearch, fmt.Sprint("q", random.IntN(3))
	}
	if w.a.session.FollowUp != nil && random.IntN(4) > 0 { // as it is asked to
		tool, query = w.a.session.FollowUp.Tool, w.a.session.FollowUp.Query
	}
	var out json.RawMessage
	var err error
	if tool == verification.ToolSearch {
		out, err = w.a.s.Search(w.a.t.Context(), w.a.by, w.a.session.ID, query)
	} else {
		out, err = w.a.s.List(w.a.t.Context(), w.a.by, w.a.session.ID)
	}
	if err == nil {
		w.served = append(w.served, servedCall{tool, query, string(out), canaryOf(verification.Turn{Output: string(out)})})
	}
}

func (w *witness) submit(random *rand.Rand, other *witness, honest int) {
	from := w
	if random.IntN(honest) == 0 {
		from = other
	}
	if len(from.served) == 0 {
		return
	}
	call := from.served[len(from.served)-1]
	if random.IntN(honest) == 0 {
		call = from.served[random.IntN(len(from.served))]
	}
	input := `{}`
	if call.query != "" {
		input = `{"query":"` + call.query + `"}`
	}
	turn := verification.Turn{ToolCall: call.tool, Input: input, Output: call.text, Timestamp: w.a.clock.Now().UnixMilli(),
		Reasoning: topic + call.tool + " " + call.canary + " " + w.a.canary}
	switch wrong := random.IntN(12 * honest); wrong {
	case 0:
		turn.Output = strings.Replace(turn.Output, "canary-", "canary-0", 1)
	case 1:
		turn.ToolCall = "synthesize"
	case 2:
		turn.Input = `{"query":"other"}`
	case 3:
		turn.Reasoning = topic
	case 4:
		turn.Timestamp += int64(random.IntN(100_000))
	case 5:
		turn.Output = "[]"
	}
	previous := verification.ChainSeed
	if n := len(w.received); n > 0 {
		previous = w.received[max(0, n-1-random.IntN(12*honest)/(12*honest-1))].turn.Hash
	}
	turn.Hash = turn.HashAfter(previous)
	at := w.a.clock.Now()
	s, err := w.a.s.Turn(w.a.t.Context(), w.a.by, w.a.session.ID, turn)
	if err != nil {
		return
	}
	w.a.session, w.a.canary = s, call.canary
	w.received = append(w.received, receivedTurn{turn, at})
	if s.FollowUp != nil && w.asked < 0 {
		w.asked = len(w.served)
	}
}

func (w *witness) trace(random *rand.Rand, other *witness, honest int) verification.Trace {
	w.a.turns = nil
	for _, r := range w.received {
		w.a.turns = append(w.a.turns, r.turn)
	}
	if n := len(w.a.turns); n > 0 {
		i := random.IntN(n)
		switch random.IntN(6 * honest) {
		case 0:
			w.a.turns = slices.Delete(w.a.turns, i, i+1)
		case 1:
			w.a.turns[i].Output = "[]"
		case 2:
			w.a.turns[i].Timestamp += 60_000
		case 3:
			if len(w.served) > 0 {
				w.a.turns[i].Output = w.served[random.IntN(len(w.served))].text
			}
		case 4:
			w.a.turns = nil
			for _, r := range other.received {
				w.a.turns = append(w.a.turns, r.turn)
			}
		}
		if random.IntN(2) == 0 { // the hashes are made to fit
			previous := verification.ChainSeed
			for i := range w.a.turns {
				w.a.turns[i].Hash = w.a.turns[i].HashAfter(previous)
				previous = w.a.turns[i].Hash
			}
		}
	}
	return w.a.trace()
}

func (w *witness) confirms(check string, t verification.Trace, base int) bool {
	if len(t.Turns) != len(w.received) {
		return false
	}
	for i, turn := range t.Turns {
		if turn != w.received[i].turn {
			return false
		}
	}
	// told is which call each turn tells of, in the order of the calls, or -1.
	told, next := make([]int, len(t.Turns)), 0
	for i, turn := range t.Turns {
		told[i] = -1
		for j := next; j < len(w.served); j++ {
			c := w.served[j]
			input := map[bool]string{true: `{}`, false: `{"query":"` + c.query + `"}`}[c.query == ""]
			if c.tool == turn.ToolCall && c.text == turn.Output && input == turn.Input {
				told[i], next = j, j+1
				break
			}
		}
	}
	switch check {
	case verification.CheckTurns:
		for i := range t.Turns {
			if told[i] < 0 || i > 0 && !strings.Contains(t.Turns[i].Reasoning, w.served[told[i-1]].canary) {
				return false
			}
		}
		return len(t.Turns) > base
	case verification.CheckDuration:
		return w.received[len(w.received)-1].at.Sub(w.received[0].at) >= time.Duration(
			w.a.session.Task.MinDurationMS)*time.Millisecond
	case verification.CheckTools:
		for _, tool := range w.a.session.Task.RequiredTools {
			if !slices.ContainsFunc(told, func(j int) bool { return j >= 0 && w.served[j].tool == tool }) {
				return false
			}
		}
		return true
	case verification.CheckFollowUp:
		f := w.a.session.FollowUp
		for i, j := range told {
			if j >= w.asked && j >= 0 && w.served[j].tool == f.Tool && w.served[j].query == f.Query &&
				strings.Contains(t.Turns[i].Reasoning, w.served[j].canary) {
				return true
			}
		}
		return false
	}
	return true // the other checks are about the hashes alone, which were compared above
}

func TestFabricators(t *testing.T) {
	seen, rigs := make(map[string]int), make(map[verification.Mode]*rig)
	for _, mode := range []verification.Mode{verification.ModeObserved, verification.ModeSeed} {
		rigs[mode] = newRig(t, verification.Options{Mode: mode})
	}
	for seed := range uint64(240) {
		random := rand.New(rand.NewPCG(seed, 18))
		mode := []verification.Mode{verification.ModeObserved, verification.ModeSeed}[seed%2]
		honest := []int{2, 6, 40}[seed%3]
		r := rigs[mode]
		w, other := &witness{a: r.agent(), asked: -1}, &witness{a: r.agent(), asked: -1}
		for range 8 + random.IntN(20) {
			one, two := w, other
			if random.IntN(4) == 0 {
				one, two = other, w
			}
			if one.call(random); random.IntN(honest) > 0 {
				one.submit(random, two, honest)
			}
			r.clock.pass(time.Duration(random.IntN(1200)) * time.Millisecond)
			if w.a.session.Answered.Observed && random.IntN(3) == 0 {
				break
			}
		}
		registration := w.a.registration()
		registration.Trace = w.trace(random, other, honest)
		got, err := r.service.Register(t.Context(), w.a.by, registration)
		if err != nil {
			seen[err.Error()]++
			continue
		}
		for _, c := range got.Verdict.Checks {
			if c.Basis != verification.BasisObserved || c.Points < c.Most {
				if got.Token != "" && mode == verification.ModeObserved {
					t.Errorf("seed %d: passed with %+v", seed, c)
				}
				continue
			}
			seen[string(mode)+" "+c.Name]++
			if !w.confirms(c.Name, registration.Trace, w.a.session.Task.MinTurns) {
				t.Errorf("seed %d, %s: %s is called observed, and did not happen", seed, mode, c.Name)
			}
		}
		if got.Token != "" {
			seen[string(mode)+" passed"]++
		} else {
			seen[string(mode)+" rejected"]++
		}
	}
	for _, want := range []string{"observed passed", "observed rejected", "seed passed", "seed rejected",
		"seed minimum_turns", "seed follow_up"} {
		if seen[want] < 5 {
			t.Errorf("%s came up only %d times: %v", want, seen[want], seen)
		}
	}
	if testing.Verbose() {
		t.Log(seen)
	}
}
