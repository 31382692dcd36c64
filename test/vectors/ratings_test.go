package vectors_test

import (
	"encoding/json"
	"fmt"

	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/rating"
)

// ratingVector are facts about an agent, with the rating that follows.
type ratingVector struct {
	Name    string          `json:"name"`
	Facts   []ratingFact    `json:"facts,omitempty"`
	Agent   string          `json:"agent,omitempty"` // in place of the file's
	At      int64           `json:"at,omitempty"`    // in place of the file's
	Rating  json.RawMessage `json:"rating"`
	Verdict string          `json:"verdict"`
}

// ratingFact is a fact as the page describes it.
type ratingFact struct {
	At        int64             `json:"at"`
	Session   *accrual.Session  `json:"session,omitempty"`
	Signal    *rating.Checklist `json:"signal,omitempty"`
	Dispute   *ratingDispute    `json:"dispute,omitempty"`
	Violation string            `json:"violation,omitempty"`
}

type ratingDispute struct {
	ID         string `json:"dispute_id"`
	About      string `json:"about"`
	Challenger bool   `json:"challenger"`
	Other      string `json:"other"`
	Outcome    string `json:"outcome"`
}

type ratingsFile struct {
	About       string         `json:"about"`
	At          int64          `json:"at"`
	Agent       string         `json:"agent"`
	ScoringHash string         `json:"scoringHash"`
	Vectors     []ratingVector `json:"vectors,omitempty"`
}

func (f ratingsFile) marshal() []byte {
	vectors := f.Vectors
	f.Vectors = nil
	return oneAVector(f, anys(vectors))
}

func (f ratingsFile) verify(v ratingVector) string {
	if got := canonicalOf(f.rate(v)); got != canonicalOf(v.Rating) {
		return "another rating: " + got
	}
	return "ok"
}

// rate returns the rating that follows from a vector's facts.
func (f ratingsFile) rate(v ratingVector) rating.Rating {
	agent, now := f.Agent, f.At
	if v.Agent != "" {
		agent = v.Agent
	}
	if v.At != 0 {
		now = v.At
	}
	var facts []rating.Fact
	for _, one := range v.Facts {
		fact := rating.Fact{At: one.At, Session: one.Session, Signal: one.Signal, Violation: one.Violation}
		if d := one.Dispute; d != nil {
			fact.Dispute = &rating.Dispute{ID: d.ID, About: d.About, Challenger: d.Challenger, Other: must(accrual.ParseAgent(d.Other)), Outcome: d.Outcome}
		}
		facts = append(facts, fact)
	}
	return must(rating.Rate(must(accrual.ParseAgent(agent)), facts, f.ScoringHash, now))
}

// aDay is in seconds.
const aDay = 86_400

// ratingFacts writes facts, one a minute, of the first day unless it is told to wait.
type ratingFacts []ratingFact

func (f ratingFacts) add(one ratingFact) ratingFacts {
	one.At = at - at%aDay - 30*aDay
	if len(f) > 0 {
		one.At = f[len(f)-1].At + 60
	}
	return append(f[:len(f):len(f)], one)
}

// wait lets time pass before the next facts: the last one comes later.
func (f ratingFacts) wait(seconds int64) ratingFacts {
	f = append(ratingFacts{}, f...)
	f[len(f)-1].At += seconds
	return f
}

func (f ratingFacts) session(event string, score float64, edits ...func(*accrual.Session)) ratingFacts {
	s := entries{}.session(event, score, edits...)[0].Session
	if s.ID == "ses_0" {
		s.ID = fmt.Sprint("ses_", len(f))
	}
	return f.add(ratingFact{Session: s})
}

func (f ratingFacts) sessions(n int, score float64, edits ...func(*accrual.Session)) ratingFacts {
	for range n {
		f = f.session(fmt.Sprint("evt_", len(f)), score, edits...)
	}
	return f
}

func (f ratingFacts) signal(c rating.Checklist) ratingFacts { return f.add(ratingFact{Signal: &c}) }

func (f ratingFacts) violations(n int) ratingFacts {
	for range n {
		f = f.add(ratingFact{Violation: "identical"})
	}
	return f
}

// party is a dispute of the agent with another one.
func (f ratingFacts) party(challenger bool, other, outcome string) ratingFacts {
	return f.add(ratingFact{Dispute: &ratingDispute{ID: fmt.Sprint("dsp_", len(f)), About: fmt.Sprint("signal-", len(f)), Challenger: challenger, Other: other, Outcome: outcome}})
}

// allChecked is a signal of which everything was found.
var allChecked = rating.Checklist{Trace: true, Sources: true, Context: true, Verification: true, Timestamp: true, Schema: true}

// ratingsVectors generates ratings.json.
func ratingsVectors() ratingsFile {
	owner := func(n int) string { return fmt.Sprintf("%043d:agent:worker-%d", n, n) }
	f := ratingsFile{About: "Ratings: see docs/vectors.md, Ratings.", At: at, Agent: owner(1), ScoringHash: formulas}
	const elsewhere = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
	wins, loses, nobody := accrual.TargetWins, accrual.ChallengerWins, accrual.Inconclusive
	host := func(names ...string) func(*accrual.Session) { return func(s *accrual.Session) { s.Hosts = names } }
	id := func(id string) func(*accrual.Session) { return func(s *accrual.Session) { s.ID = id } }
	none := func(s *accrual.Session) { s.Interactions, s.Hosts = 0, []string{} }
	others := func(s *accrual.Session) { s.ScoringHash = otherHash }
	steady := ratingFacts{}.signal(allChecked).sessions(20, 50)
	without := func(edit func(*rating.Checklist)) ratingFacts {
		c := allChecked
		edit(&c)
		return ratingFacts{}.signal(c).sessions(20, 50)
	}
	uneven := ratingFacts{}.signal(allChecked)
	for i := range 40 {
		uneven = uneven.sessions(1, float64(i*i%97)).wait(aDay / 4)
	}
	for _, row := range []struct {
		name  string
		facts ratingFacts
		agent string
		days  int64 // from the first fact's midnight on; 30 if 0
	}{
		{name: "nothing"}, {name: "a signal alone", facts: ratingFacts{}.signal(allChecked)}, {name: "sessions alone", facts: ratingFacts{}.sessions(20, 50)},
		{name: "nine sessions", facts: ratingFacts{}.signal(allChecked).sessions(9, 50)}, {name: "ten sessions", facts: ratingFacts{}.signal(allChecked).sessions(10, 50)},
		{name: "steady", facts: steady}, {name: "before the first midnight", facts: steady, days: -1}, {name: "one step", facts: steady, days: 1}, {name: "two steps", facts: steady, days: 2},
		{name: "no autonomy", facts: ratingFacts{}.signal(allChecked).sessions(20, 0)}, {name: "as good as can be", facts: ratingFacts{}.signal(allChecked).sessions(20, 100)},
		{name: "at the end of low confidence", facts: ratingFacts{}.signal(allChecked).sessions(20, 30)},
		{name: "a spread within the noise", facts: ratingFacts{}.signal(allChecked).sessions(10, 40).sessions(10, 60)},
		{name: "a spread beyond it", facts: ratingFacts{}.signal(allChecked).sessions(10, 30).sessions(10, 70)},
		{name: "a fall", facts: ratingFacts{}.signal(allChecked).sessions(10, 70).sessions(10, 30)},
		{name: "a jump of 50", facts: ratingFacts{}.signal(allChecked).sessions(19, 75).sessions(1, 25)},
		{name: "a jump above 50", facts: ratingFacts{}.signal(allChecked).sessions(19, 75).sessions(1, 24.9)},
		{name: "sessions up and down, over many days", facts: uneven}, {name: "some of these days", facts: uneven, days: 7},
		{name: "more than 20 events", facts: ratingFacts{}.signal(allChecked).sessions(15, 0).sessions(20, 50)},
		{name: "two sessions of one event", facts: steady.session("e", 90).session("e", 40)}, {name: "late receipts", facts: steady.session("e", 90, id("s")).session("e", 40, id("s"))},
		{name: "late receipts a day later", facts: steady.session("e", 90, id("s")).session("e", 40, id("s")).wait(aDay), days: 2},
		{name: "an event without an interaction", facts: steady.session("e", 99, none)}, {name: "an event whose second session has the interaction", facts: steady.session("e", 40, none).session("e", 90)},
		{name: "scores by other formulas", facts: steady.sessions(5, 99, others)}, {name: "nothing but scores by other formulas", facts: ratingFacts{}.signal(allChecked).sessions(20, 50, others)},
		{name: "another host", facts: steady.sessions(1, 50, host("a:443"))}, {name: "one host in common", facts: steady.sessions(1, 50, host("a:443", "api.openai.com:443"))},
		{name: "another host each time", facts: ratingFacts{}.signal(allChecked).sessions(5, 50).sessions(1, 50, host("a")).sessions(1, 50, host("b")).sessions(1, 50, host("c")).sessions(5, 50)},
		{name: "no trace", facts: without(func(c *rating.Checklist) { c.Trace = false })}, {name: "no sources", facts: without(func(c *rating.Checklist) { c.Sources = false })},
		{name: "no context", facts: without(func(c *rating.Checklist) { c.Context = false })}, {name: "no verification", facts: without(func(c *rating.Checklist) { c.Verification = false })},
		{name: "no timestamp", facts: without(func(c *rating.Checklist) { c.Timestamp = false })}, {name: "no schema", facts: without(func(c *rating.Checklist) { c.Schema = false })},
		{name: "neither schema nor verification", facts: without(func(c *rating.Checklist) { c.Schema, c.Verification = false, false })},
		{name: "signals of which half say nothing", facts: steady.signal(rating.Checklist{Schema: true})},
		{name: "accused, and right", facts: steady.party(false, owner(2), wins)}, {name: "accused twice by one owner, and right", facts: steady.party(false, owner(2), wins).party(false, owner(2), wins)},
		{name: "accused by two owners, and right", facts: steady.party(false, owner(2), wins).party(false, owner(3), wins)},
		{name: "accused by its own owner, and right", facts: steady.party(false, owner(1), wins)}, {name: "accused from elsewhere, and right", facts: steady.party(false, elsewhere, wins)},
		{name: "accused, and wrong", facts: steady.party(false, owner(2), loses)}, {name: "accused from elsewhere, and wrong", facts: steady.party(false, elsewhere, loses)},
		{name: "accused, and wrong, on the twelfth day", facts: steady.party(false, owner(2), loses).wait(12 * aDay)},
		{name: "accused, and wrong, and nineteen sessions", facts: steady.party(false, owner(2), loses).sessions(19, 50)},
		{name: "accused, and wrong, and twenty sessions", facts: steady.party(false, owner(2), loses).sessions(20, 50)},
		{name: "accused, and nobody wins", facts: steady.party(false, owner(2), nobody)}, {name: "wrong about two signals", facts: steady.party(false, owner(2), loses).party(false, owner(2), loses)},
		{name: "wrong about one signal twice", facts: func() ratingFacts {
			f := steady.party(false, owner(2), loses).party(false, owner(3), loses)
			f[len(f)-1].Dispute.About = f[len(f)-2].Dispute.About
			return f
		}()},
		{name: "one dispute twice", facts: func() ratingFacts {
			f := steady.party(false, owner(2), wins).party(false, owner(3), wins)
			f[len(f)-1].Dispute.ID = f[len(f)-2].Dispute.ID
			return f
		}()},
		{name: "it disputes, and is right", facts: steady.party(true, owner(2), loses)}, {name: "it disputes, and is wrong", facts: steady.party(true, owner(2), wins)},
		{name: "it disputes its own owner's, and is right", facts: steady.party(true, owner(1), loses)}, {name: "it disputes one elsewhere, and is right", facts: steady.party(true, elsewhere, loses)},
		{name: "it disputes, and nobody wins", facts: steady.party(true, owner(2), nobody)},
		{name: "a violation", facts: steady.violations(1)}, {name: "four violations", facts: steady.violations(4), days: 1}, {name: "nine violations", facts: steady.violations(9)},
		{name: "nine violations, and two weeks", facts: steady.violations(9), days: 15}, {name: "a violation at midnight", facts: steady.violations(1).wait(aDay - 21*60), days: 1},
		{name: "all at once", facts: uneven.party(false, owner(2), wins).party(true, owner(3), loses).party(true, owner(4), wins).violations(2).signal(rating.Checklist{Schema: true, Timestamp: true})},
		{name: "facts in another order", facts: func() ratingFacts {
			f := uneven.party(false, owner(2), loses)
			for i, j := 0, len(f)-1; i < j; i, j = i+1, j-1 {
				f[i], f[j] = f[j], f[i]
			}
			return f
		}()},
		{name: "an agent elsewhere", facts: steady.party(false, owner(2), wins), agent: elsewhere},
	} {
		v := ratingVector{Name: row.name, Facts: row.facts, Agent: row.agent, Verdict: "ok"}
		if row.days != 0 {
			v.At = at - at%aDay + (row.days-30)*aDay
		}
		v.Rating = json.RawMessage(canonicalOf(f.rate(v)))
		f.Vectors = append(f.Vectors, v)
	}
	return f
}
