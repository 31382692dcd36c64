package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/rating"
)

const (
	hour  = 3600
	day   = 24 * hour
	days  = 30
	start = 1_800_057_600 // a midnight
	// window is how long a signal can be disputed.
	window = 24 * hour
)

// scoring stands for the hash of the formulas that all sessions are scored by.
var scoring = evidence.HashBytes([]byte("formulas"))

// agent is one agent of the world, with all that the node knows of it.
type agent struct {
	accrual.Agent
	kind     *kind
	random   *rand.Rand
	log      *accrual.Account
	facts    []rating.Fact
	verified bool
	events   int
	gone     bool // it has given up its name
}

// signal is a signal that an agent has published.
type signal struct {
	id    string
	by    *agent
	at    int64
	sound bool // it would stand a dispute
}

// world is a month in the lives of some agents.
type world struct {
	random   *rand.Rand
	agents   []*agent
	recent   []*signal // those of the last day
	signals  int
	disputes int
}

func newWorld(seed uint64) *world { return &world{random: rand.New(rand.NewPCG(seed, 1))} }

// owner returns an owner's thumbprint.
func owner(name string) string {
	return strings.ReplaceAll(fmt.Sprintf("%-43s", name), " ", "-")
}

// add adds an agent to the world.
func (w *world) add(k *kind, id accrual.Agent) *agent {
	a := &agent{Agent: id, kind: k, random: rand.New(rand.NewPCG(w.random.Uint64(), w.random.Uint64())), log: must(accrual.NewAccount(id))}
	a.verified = a.random.Float64() < k.verified
	w.agents = append(w.agents, a)
	return a
}

// enter adds an entry to the agent's log, and what R takes from it.
func (a *agent) enter(e accrual.Entry) {
	if must(a.log.Add(e)) && e.Session != nil {
		a.facts = append(a.facts, rating.Fact{At: e.At, Session: e.Session})
	}
}

// rated is the agent's rating after some days.
func (a *agent) rated(after int) rating.Rating {
	return must(rating.Rate(a.Agent, a.facts, scoring, start+int64(after)*day))
}

// work closes a session of an event of its own.
func (a *agent) work(at int64) {
	a.events++
	a.enter(accrual.Entry{At: at, Session: &accrual.Session{
		ID: fmt.Sprint("ses_", a.events), EventID: fmt.Sprint("evt_", a.events), Score: accrual.Round(min(100, max(0, a.kind.score(a.random)))), Coverage: 1,
		ScoringHash: scoring, Interactions: 3, Hosts: []string{"model.example:443"},
	}})
}

// publish publishes a signal. It is final once its window has closed.
func (w *world) publish(a *agent, at int64, sound bool) *signal {
	w.signals++
	s := &signal{id: fmt.Sprint("signal_", w.signals), by: a, at: at, sound: sound}
	rests := a.random.Float64() < a.kind.rests
	a.facts = append(a.facts, rating.Fact{At: at + window, Signal: &rating.Checklist{
		Trace: rests, Sources: rests, Context: true, Verification: a.verified, Timestamp: true, Schema: true,
	}})
	w.recent = append(w.recent, s)
	return s
}

// dispute is what one agent has against a signal of another. Rules decide it, so whoever is right wins.
func (w *world) dispute(challenger *agent, s *signal, at int64) {
	w.disputes++
	id, outcome := fmt.Sprint("dispute_", w.disputes), accrual.TargetWins
	if !s.sound {
		outcome = accrual.ChallengerWins
	}
	s.by.enter(accrual.Entry{At: at, Dispute: &accrual.Dispute{ID: id, Outcome: outcome}})
	final := max(at, s.at+window)
	s.by.facts = append(s.by.facts, rating.Fact{At: final, Dispute: &rating.Dispute{ID: id, About: s.id, Other: challenger.Agent, Outcome: outcome}})
	challenger.facts = append(challenger.facts, rating.Fact{At: final, Dispute: &rating.Dispute{ID: id, About: s.id, Challenger: true, Other: s.by.Agent, Outcome: outcome}})
	if outcome == accrual.ChallengerWins && s.by.kind.renames {
		s.by.gone = true
	}
}

// violate is a breach of a rule against spam.
func (a *agent) violate(at int64) {
	a.facts = append(a.facts, rating.Fact{At: at, Violation: "identical"})
}

// live lets the days pass. What agents do besides, at the end of each day, is up to then.
func (w *world) live(then func(today int, midnight int64)) {
	for today := range days {
		morning := int64(start + today*day)
		w.recent = slices.DeleteFunc(w.recent, func(s *signal) bool { return s.at+window < morning+day })
		for _, a := range w.agents {
			if a.gone {
				continue
			}
			for range poisson(a.random, a.kind.sessions) {
				a.work(morning + a.random.Int64N(day/2))
			}
			for range poisson(a.random, a.kind.signals) {
				w.publish(a, morning+day/2+a.random.Int64N(day/4), a.random.Float64() < a.kind.sound)
			}
		}
		if then != nil {
			then(today, morning+day)
		}
	}
}

// poisson returns how often something happens that happens so often in the mean.
func poisson(r *rand.Rand, often float64) (n int) {
	for p := r.Float64(); p > math.Exp(-often); p *= r.Float64() {
		n++
	}
	return n
}

// must is for errors that only a mistake in this program brings about.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
