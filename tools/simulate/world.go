package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
)

const (
	hour  = 3600
	day   = 24 * hour
	days  = 30
	start = 1_800_057_600 // a midnight
)

// Times of the day, in seconds. Sessions are entered at midnight.
const (
	publishes = 12 * hour
	finalises = 13 * hour
	contests  = 18 * hour
)

// scoring is the hash of the scoring formulas.
var scoring = evidence.HashBytes([]byte("formulas"))

// agent is one agent of the world.
type agent struct {
	accrual.Agent
	kind    *kind
	random  *rand.Rand
	log     *accrual.Account
	entries []accrual.Entry // of the log
	since   int64           // of its registration, or 0
	gone    bool            // gave up its name
}

// signal is a signal that an agent has published.
type signal struct {
	id      string
	by      *agent
	receipt dispute.Known
	sound   bool // its receipts do not contradict each other
}

// world is a month of some agents, with the node's log of disputes.
type world struct {
	random  *rand.Rand
	now     int64
	agents  []*agent
	byID    map[string]*agent
	book    *dispute.Book
	today   []*signal // that were published today
	counter int
	// accusations are the disputes before arbiters.
	accusations int
}

func newWorld(seed uint64) *world {
	return &world{random: rand.New(rand.NewPCG(seed, 1)), now: start, byID: make(map[string]*agent),
		book: dispute.NewBook()}
}

// owner returns an owner's thumbprint.
func owner(name string) string {
	return strings.ReplaceAll(fmt.Sprintf("%-43s", name), " ", "-")
}

// know adds a passive agent.
func (w *world) know(k *kind, id accrual.Agent) *agent {
	if a := w.byID[id.String()]; a != nil {
		return a
	}
	a := &agent{Agent: id, kind: k, random: rand.New(rand.NewPCG(w.random.Uint64(), w.random.Uint64())),
		log: must(accrual.NewAccount(id, scoring))}
	w.byID[id.String()] = a
	return a
}

// add adds an active agent.
func (w *world) add(k *kind, id accrual.Agent) *agent {
	a := w.know(k, id)
	w.agents = append(w.agents, a)
	return a
}

// id returns an id that nothing else has.
func (w *world) id(of string) string {
	w.counter++
	return fmt.Sprint(of, w.counter)
}

// clock is the node's.
func (w *world) clock() time.Time { return time.Unix(w.now, 0) }

// enter adds an entry to the node's log and its effects to the agents' logs.
func (w *world) enter(e dispute.Entry) {
	for _, one := range must(w.book.Add(e)).Accounts {
		w.byID[one.Agent.String()].add(one.Entry)
	}
}

// add adds an entry to the agent's log.
func (a *agent) add(e accrual.Entry) {
	if must(a.log.Add(e)) {
		a.entries = append(a.entries, e)
	}
}

// of describes an author. All agents have passed a verification, long ago but for the keys of an attack.
func (a *agent) of() dispute.By {
	return dispute.By{Registered: time.Unix(max(1, a.since), 0)}
}

// work enters a session with its own event.
func (w *world) work(a *agent) {
	s := &accrual.Session{
		ID: w.id("ses_"), EventID: w.id("evt_"), Score: accrual.Round(min(100, max(0, a.kind.score(a.random)))), Coverage: 1,
		ScoringHash: scoring, Interactions: 3, Hosts: []string{"model.example:443"},
	}
	a.add(accrual.Entry{At: w.now, Session: s})
}

// publish publishes a signal, which may cite others.
func (w *world) publish(a *agent, sound bool, cites ...string) *signal {
	s := &signal{id: w.id("signal-"), by: a, sound: sound}
	s.receipt = dispute.Known{Hash: evidence.HashBytes([]byte(s.id)), Agent: a.String(), Session: s.id, At: w.now}
	rests := a.random.Float64() < a.kind.rests
	e := must(w.book.Publish(dispute.DefaultRules,
		dispute.Publication{By: a.of(), Observed: rests, Sources: rests, Cites: cites, Signal: dispute.Signal{
			SignalID: s.id, AgentID: a.String(), Statement: "so it is", Horizon: dispute.HorizonShort, Timestamp: w.now,
			RestsOn: &dispute.RestsOn{Receipts: []string{s.receipt.Hash}},
		}}, w.clock()))
	w.enter(*e)
	w.today = append(w.today, s)
	return s
}

// may reports whether an agent may open a dispute now. No agent files one without standing on purpose.
func (w *world) may(a *agent) bool {
	return w.book.Standing(a.String(), a.of().Registered, w.clock()) >= dispute.Stake
}

// contest lets an agent dispute a signal, if it may. Receipts decide, so the right side wins.
func (w *world) contest(challenger *agent, s *signal) {
	if !w.may(challenger) {
		return
	}
	id, e := w.file(challenger, s, dispute.TypeTiming)
	if e == nil || e.Opened == nil {
		return
	}
	f := dispute.Finding{Outcome: accrual.TargetWins, Reason: dispute.ReasonNothingFound}
	if !s.sound {
		f = dispute.Finding{Outcome: accrual.ChallengerWins, Reason: dispute.ReasonOverlap, Fault: s.receipt.Hash}
		s.by.gone = s.by.gone || s.by.kind.renames
	}
	w.enter(w.book.End(id, f, w.clock()))
}

// file files a dispute and returns the entry: the dispute, a violation, or nil for a plain refusal.
func (w *world) file(challenger *agent, s *signal, kind string) (id string, e *dispute.Entry) {
	// A refusal is an answer here.
	id, e, _ = w.book.File(dispute.DefaultRules,
		dispute.Filed{By: challenger.of(), Receipts: []dispute.Known{s.receipt},
			Filing: dispute.Filing{Contract: &dispute.Contract{
				ChallengeID: w.id("contract-"), OriginalSignalID: s.id, ChallengerAgentID: challenger.String(),
				CounterClaim: "so it is not", ReasoningTrace: "because", Timestamp: w.now,
				ChallengeType: kind,
			}}}, w.clock())
	if e != nil {
		w.enter(*e)
	}
	return id, e
}

// finalise closes windows.
func (w *world) finalise() {
	for _, one := range w.book.Closing(w.clock(), math.MaxInt) {
		w.enter(w.book.Finalise(one.ID, w.clock()))
	}
}

// live plays the days. evening is what agents do to each other.
func (w *world) live(evening func(today int)) {
	for today := range days {
		morning := int64(start + today*day)
		w.now, w.today = morning, nil
		living := slices.DeleteFunc(slices.Clone(w.agents), func(a *agent) bool { return a.gone })
		for _, a := range living {
			for range poisson(a.random, a.kind.sessions) {
				w.work(a)
			}
		}
		w.now = morning + publishes
		for _, a := range living {
			for range poisson(a.random, a.kind.signals) {
				w.publish(a, a.random.Float64() < a.kind.sound)
			}
		}
		w.now = morning + finalises
		w.finalise()
		w.now = morning + contests
		if evening != nil {
			evening(today)
		}
	}
}

// rated is the agent's rating after some days.
func (a *agent) rated(after int) accrual.Rating {
	at := int64(start + after*day)
	n := slices.IndexFunc(a.entries, func(e accrual.Entry) bool { return e.At >= at })
	if n < 0 {
		n = len(a.entries)
	}
	return must(accrual.Replay(a.Agent, a.entries[:n], scoring)).Rating(at)
}

// poisson returns a Poisson number.
func poisson(r *rand.Rand, often float64) (n int) {
	for p := r.Float64(); p > math.Exp(-often); p *= r.Float64() {
		n++
	}
	return n
}

// must panics on errors that only a bug causes.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
