package autonomy

import (
	"fmt"
	"hash/fnv"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
)

// The groups.
const (
	Steady = "steady agents"
	Bursts = "agents that work in bursts"
	People = "people"
	Replay = "replayed scripts"
	Paced  = "paced fakes"
	Fake   = "fake model endpoints"
	Odd    = "agents that look like people"
	Hidden = "people who look like agents"
)

// Groups are all groups. [Odd] and [Hidden] are hard cases.
var Groups = []string{Steady, Bursts, People, Replay, Paced, Fake, Odd, Hidden}

// kind is a kind of session of a group.
type kind struct {
	group, name string
	habits      habits
	least, most int // calls
	daytime     bool
	simulate    func(*run)
}

// kinds are all kinds. Each has the same share of its group.
var kinds = []kind{
	{Steady, "coding agent", agentHabits, 8, 200, false, codingAgent},
	{Steady, "research agent", agentHabits, 6, 120, false, researchAgent},
	{Steady, "batch classifier", loopHabits, 20, 200, false, batchClassifier},
	{Steady, "support worker", agentHabits, 5, 150, false, supportWorker},
	{Steady, "planner with workers", agentHabits, 10, 160, false, planner},
	{Steady, "bookkeeper that posts", agentHabits, 5, 100, false, bookkeeper},

	{Bursts, "incident responder", agentHabits, 8, 150, false, incidentResponder},
	{Bursts, "reviewer of changes", agentHabits, 5, 150, false, reviewer},
	{Bursts, "hourly digest", agentHabits, 5, 90, false, digest},

	{People, "types prompts", personHabits, 5, 120, true, typist},
	{People, "copies prompts in", personHabits, 5, 120, true, copier},
	{People, "clicks continue", personHabits, 5, 100, true, continuer},
	{People, "programs with an agent", helpedHabits, 8, 200, true, pair},

	{Replay, "fixed conversation", scriptHabits, 5, 120, false, fixedConversation},
	{Replay, "recorded agent", scriptHabits, 8, 150, false, recordedAgent},
	{Replay, "one request in a loop", scriptHabits, 10, 200, false, oneRequest},
	{Replay, "list of prompts", scriptHabits, 5, 150, false, listOfPrompts},

	{Paced, "person behind a pacing proxy", fakeHabits, 5, 120, true, pacedPerson},
	{Paced, "invented calls of tools", fakeHabits, 8, 150, false, inventedCalls},
	{Paced, "outputs echoed as work", fakeHabits, 8, 150, false, echoedOutputs},
	{Paced, "person between filler calls", fakeHabits, 10, 200, true, filler},

	{Fake, "person behind the endpoint", fakeHabits, 5, 80, true, personEndpoint},
	{Fake, "canned text, linear times", fakeHabits, 8, 200, false, linearEndpoint},
	{Fake, "canned text, plausible noise", fakeHabits, 8, 200, false, noisyEndpoint},
	{Fake, "real model, forged figures", fakeHabits, 8, 150, false, forgingEndpoint},

	{Odd, "slow local model", agentHabits, 5, 60, false, slowLocal},
	{Odd, "long runs of tools", agentHabits, 5, 60, false, longTools},
	{Odd, "tiny sessions", simpleHabits, 1, 4, false, tiny},
	{Odd, "no tools at all", simpleHabits, 5, 80, false, noTools},
	{Odd, "held to a rate", agentHabits, 5, 120, false, limited},
	{Odd, "polls one thing", loopHabits, 10, 150, false, poller},

	{Hidden, "supervises a loop", trustedHabits, 20, 200, true, supervisor},
	{Hidden, "approves each call of a tool", trustedHabits, 8, 150, true, approver},
	{Hidden, "dictates short orders", trustedHabits, 8, 120, true, dictator},
	{Hidden, "is an agent's tool", trustedHabits, 5, 80, true, answerer},
}

// Make makes n sessions of each group. The first ones are the same for every n.
func Make(n int, seed uint64) ([]Session, error) { return makeAll(n, seed, longest) }

// longest bounds the calls of a session.
const longest = 200

// makeAll makes sessions of at most that many calls.
func makeAll(n int, seed uint64, most int) ([]Session, error) {
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	all := make([]Session, n*len(Groups))
	for g, group := range Groups {
		of := kindsOf(group)
		for i := range n {
			k := of[i%len(of)]
			work.Go(func() (err error) {
				if all[g*n+i], err = k.make(fmt.Sprintf("ses_%d_%d_%03d", seed, g, i), i, seed, most); err != nil {
					err = fmt.Errorf("session %d of %s, %s: %w", i, group, k.name, err)
				}
				return err
			})
		}
	}
	return all, work.Wait()
}

func kindsOf(group string) (of []kind) {
	for _, k := range kinds {
		if k.group == group {
			of = append(of, k)
		}
	}
	return of
}

// make makes one session.
func (k kind) make(id string, number int, seed uint64, most int) (Session, error) {
	name := fnv.New64a()
	_, _ = fmt.Fprint(name, k.group, k.name, number)
	d := newRandom(seed, name.Sum64())
	s, err := newSidecar(id, "agent:worker-1", k.opens(d))
	if err != nil {
		return Session{}, err
	}
	r := &run{random: d, sidecar: s, want: d.spread(k.least, min(k.most, most)), habits: k.habits,
		connecting: d.about(35*time.Millisecond, 0.6)}
	s.pending = r.standing
	r.wait(d.about(800*time.Millisecond, 0.5))
	k.simulate(r)
	r.wait(d.about(2*time.Second, 1))
	receipts, err := s.close()
	if r.err != nil {
		err = r.err
	}
	return Session{Group: k.group, Kind: k.name, ID: id, Receipts: receipts, Challenges: r.settledChallenges()}, err
}

// settledChallenges returns the challenges without commitments after the session's end.
func (r *run) settledChallenges() []Challenge {
	end := r.now().UnixMilli()
	for i, c := range r.challenges {
		if c.Committed > end {
			r.challenges[i].Committed, r.challenges[i].Commitment = 0, ""
		}
	}
	return r.challenges
}

// opens returns the start of a session: people work by day, others at any time.
func (k kind) opens(d random) time.Time {
	day := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC).AddDate(0, 0, d.IntN(40))
	if !k.daytime {
		return day.Add(d.between(0, 24*time.Hour))
	}
	for day.Weekday() == time.Saturday || day.Weekday() == time.Sunday && d.chance(0.7) {
		day = day.AddDate(0, 0, 1)
	}
	return day.Add(8*time.Hour + d.between(0, 10*time.Hour))
}
