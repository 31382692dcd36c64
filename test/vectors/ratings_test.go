package vectors_test

import (
	"encoding/json"
	"fmt"

	"github.com/actionproof/mediator/reputation/accrual"
)

type ratingVector struct {
	Name    string           `json:"name"`
	Factors *accrual.Factors `json:"factors,omitempty"`
	Log     []accrual.Entry  `json:"log,omitempty"`
	Agent   string           `json:"agent,omitempty"`
	At      int64            `json:"at,omitempty"`
	Rating  json.RawMessage  `json:"rating"`
	Verdict string           `json:"verdict"`
}

type ratingsFile struct {
	About       string         `json:"about"`
	At          int64          `json:"at"`
	Agent       string         `json:"agent"`
	ScoringHash string         `json:"scoringHash"`
	Vectors     []ratingVector `json:"vectors,omitempty"`
}

func (f ratingsFile) verify(v ratingVector) string {
	if got := f.follows(v); got != canonicalOf(v.Rating) {
		return "another rating: " + got
	}
	return "ok"
}

func (f ratingsFile) follows(v ratingVector) string {
	if v.Factors != nil {
		return canonicalOf(map[string]float64{"r_today": v.Factors.R()})
	}
	return canonicalOf(f.rate(v))
}

func (f ratingsFile) rate(v ratingVector) accrual.Rating {
	agent, now := f.Agent, f.At
	if v.Agent != "" {
		agent = v.Agent
	}
	if v.At != 0 {
		now = v.At
	}
	of := must(accrual.ParseAgent(agent))
	return must(accrual.Replay(of, v.Log, f.ScoringHash)).Rating(now)
}

// in seconds
const aDay = 86_400

type ratingLog []accrual.Entry

func (l ratingLog) add(e accrual.Entry) ratingLog {
	e.At = at - at%aDay - 30*aDay
	if len(l) > 0 {
		e.At = l[len(l)-1].At + 60
	}
	return append(l[:len(l):len(l)], e)
}

func (l ratingLog) wait(seconds int64) ratingLog {
	l = append(ratingLog{}, l...)
	l[len(l)-1].At += seconds
	return l
}

func (l ratingLog) session(event string, score float64, edits ...func(*accrual.Session)) ratingLog {
	s := entries{}.session(event, score, edits...)[0].Session
	if s.ID == "ses_0" {
		s.ID = fmt.Sprint("ses_", len(l))
	}
	return l.add(accrual.Entry{Session: s})
}

func (l ratingLog) sessions(n int, score float64, edits ...func(*accrual.Session)) ratingLog {
	for range n {
		l = l.session(fmt.Sprint("evt_", len(l)), score, edits...)
	}
	return l
}

func (l ratingLog) signal(s accrual.Signal) ratingLog {
	s.ID = fmt.Sprint("signal-", len(l))
	return l.add(accrual.Entry{Signal: &s})
}

func (l ratingLog) cited(by string) ratingLog {
	return l.add(accrual.Entry{Cited: &accrual.Cited{By: by, SignalID: fmt.Sprint("signal-", len(l))}})
}

func (l ratingLog) violations(n int) ratingLog {
	for range n {
		l = l.add(accrual.Entry{Violation: &accrual.Violation{Rule: "identical"}})
	}
	return l
}

func (l ratingLog) accused(other, outcome string) ratingLog {
	id, about := fmt.Sprint("dsp_", len(l)), fmt.Sprint("signal-", len(l))
	return l.add(accrual.Entry{Dispute: &accrual.Dispute{ID: id, About: about, Other: other, Outcome: outcome}})
}

func (l ratingLog) raised(other, outcome string) ratingLog {
	id, about := fmt.Sprint("dsp_", len(l)), fmt.Sprint("signal-", len(l))
	return l.add(accrual.Entry{Raised: &accrual.Raised{ID: id, About: about, Other: other, Outcome: outcome}})
}

var allChecked = accrual.Signal{Trace: true, Sources: true, Context: true, Verification: true, Timestamp: true,
	Schema: true}

func ratingsVectors() ratingsFile {
	owner := func(n int) string { return fmt.Sprintf("%043d:agent:worker-%d", n, n) }
	f := ratingsFile{About: "Ratings: see docs/vectors.md, Ratings.", At: at, Agent: owner(1), ScoringHash: formulas}
	const elsewhere = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
	wins, loses, nobody := accrual.TargetWins, accrual.ChallengerWins, accrual.Inconclusive
	host := func(names ...string) func(*accrual.Session) { return func(s *accrual.Session) { s.Hosts = names } }
	late := func(s *accrual.Session) { s.ID = "s" }
	none := func(s *accrual.Session) { s.Interactions, s.Hosts = 0, []string{} }
	others := func(s *accrual.Session) { s.ScoringHash = otherHash }
	checked := ratingLog{}.signal(allChecked)
	steady := checked.sessions(20, 50)
	without := func(edit func(*accrual.Signal)) ratingLog {
		c := allChecked
		edit(&c)
		return ratingLog{}.signal(c).sessions(20, 50)
	}
	uneven := checked
	for i := range 40 {
		uneven = uneven.sessions(1, float64(i*i%97)).wait(aDay / 4)
	}
	for _, row := range []struct {
		name  string
		log   ratingLog
		agent string
		days  int64 // from the midnight before the first entry; 30 if 0, and -1 for a second less than one
	}{
		{name: "nothing"}, {name: "a signal alone", log: checked},
		{name: "sessions alone", log: ratingLog{}.sessions(20, 50)},
		{name: "nine sessions", log: checked.sessions(9, 50)},
		{name: "ten sessions", log: checked.sessions(10, 50)},
		{name: "steady", log: steady}, {name: "before the first midnight", log: steady[:15], days: -1},
		{name: "one step", log: steady, days: 1}, {name: "two steps", log: steady, days: 2},
		{name: "no autonomy", log: checked.sessions(20, 0)},
		{name: "as good as can be", log: checked.sessions(20, 100)},
		{name: "at the end of low confidence", log: checked.sessions(20, 30)},
		{name: "a spread within the noise", log: checked.sessions(10, 40).sessions(10, 60)},
		{name: "a spread beyond it", log: checked.sessions(10, 30).sessions(10, 70)},
		{name: "a fall", log: checked.sessions(10, 70).sessions(10, 30)},
		{name: "a jump of 50", log: checked.sessions(19, 75).sessions(1, 25)},
		{name: "a jump above 50", log: checked.sessions(19, 75).sessions(1, 24.9)},
		{name: "sessions up and down, over many days", log: uneven}, {name: "some of these days", log: uneven[:28], days: 7},
		{name: "more than 20 events", log: checked.sessions(15, 0).sessions(20, 50)},
		{name: "two sessions of one event", log: steady.session("e", 90).session("e", 40)},
		{name: "late receipts", log: steady.session("e", 90, late).session("e", 40, late)},
		{name: "late receipts that raise a score", log: steady.session("e", 10, late).session("e", 40, late)},
		{name: "a fall that recovers", log: checked.sessions(10, 60).sessions(3, 20).sessions(7, 70)},
		{name: "late receipts a day later", log: steady.session("e", 90, late).session("e", 40, late).wait(aDay), days: 2},
		{name: "an event without an interaction", log: steady.session("e", 99, none)},
		{name: "an event whose second session has the interaction", log: steady.session("e", 40, none).session("e", 90)},
		{name: "scores by other formulas", log: steady.sessions(5, 99, others)},
		{name: "nothing but scores by other formulas", log: checked.sessions(20, 50, others)},
		{name: "another host", log: steady.sessions(1, 50, host("a:443"))},
		{name: "one host in common", log: steady.sessions(1, 50, host("a:443", "api.openai.com:443"))},
		{name: "another host each time",
			log: checked.sessions(5, 50).sessions(1, 50, host("a")).sessions(1, 50, host("b")).sessions(1,
				50, host("c")).sessions(5, 50)},
		{name: "no trace", log: without(func(c *accrual.Signal) { c.Trace = false })},
		{name: "no sources", log: without(func(c *accrual.Signal) { c.Sources = false })},
		{name: "no context", log: without(func(c *accrual.Signal) { c.Context = false })},
		{name: "no verification", log: without(func(c *accrual.Signal) { c.Verification = false })},
		{name: "no timestamp", log: without(func(c *accrual.Signal) { c.Timestamp = false })},
		{name: "no schema", log: without(func(c *accrual.Signal) { c.Schema = false })},
		{name: "neither schema nor verification", log: without(func(c *accrual.Signal) {
			c.Schema, c.Verification = false, false
		})},
		{name: "signals of which half say nothing", log: steady.signal(accrual.Signal{Schema: true})},
		{name: "accused, and right", log: steady.accused(owner(2), wins)},
		{name: "accused twice by one owner, and right", log: steady.accused(owner(2), wins).accused(owner(2), wins)},
		{name: "accused by two owners, and right", log: steady.accused(owner(2), wins).accused(owner(3), wins)},
		{name: "accused by its own owner, and right", log: steady.accused(owner(1), wins)},
		{name: "accused from elsewhere, and right", log: steady.accused(elsewhere, wins)},
		{name: "accused, and wrong", log: steady.accused(owner(2), loses)},
		{name: "accused from elsewhere, and wrong", log: steady.accused(elsewhere, loses)},
		{name: "accused, and wrong, on the twelfth day", log: steady.accused(owner(2), loses).wait(12 * aDay)},
		{name: "accused, and wrong, and nineteen sessions", log: steady.accused(owner(2), loses).sessions(19, 50)},
		{name: "accused, and wrong, and twenty sessions", log: steady.accused(owner(2), loses).sessions(20, 50)},
		{name: "accused, and nobody wins", log: steady.accused(owner(2), nobody)},
		{name: "wrong about two signals", log: steady.accused(owner(2), loses).accused(owner(2), loses)},
		{name: "wrong about one signal twice", log: func() ratingLog {
			f := steady.accused(owner(2), loses).accused(owner(3), loses)
			f[len(f)-1].Dispute.About = f[len(f)-2].Dispute.About
			return f
		}()},
		{name: "accused, and open", log: steady.add(accrual.Entry{Dispute: &accrual.Dispute{ID: "dsp"}})},
		{name: "accused by nobody who is known",
			log: steady.add(accrual.Entry{Dispute: &accrual.Dispute{ID: "dsp", Outcome: wins}})},
		{name: "it disputes, and is right", log: steady.raised(owner(2), loses)},
		{name: "it disputes, and is wrong", log: steady.raised(owner(2), wins)},
		{name: "it disputes its own owner's, and is right", log: steady.raised(owner(1), loses)},
		{name: "it disputes one elsewhere, and is right", log: steady.raised(elsewhere, loses)},
		{name: "it disputes, and nobody wins", log: steady.raised(owner(2), nobody)},
		{name: "a violation", log: steady.violations(1)}, {name: "four violations", log: steady.violations(4), days: 1},
		{name: "nine violations", log: steady.violations(9)},
		{name: "nine violations, and two weeks", log: steady.violations(9), days: 15},
		{name: "a violation at midnight", log: steady.violations(1).wait(aDay - 21*60), days: 1},
		{name: "all at once", log: uneven.accused(owner(2), wins).raised(owner(3), loses).raised(owner(4),
			wins).violations(2).signal(accrual.Signal{Schema: true, Timestamp: true})},
		{name: "cited", log: steady.cited(owner(2))},
		{name: "cited by two owners, one of them twice", log: steady.cited(owner(2)).cited(owner(3)).cited(owner(2))},
		{name: "cited by its own owner", log: steady.cited(owner(1))},
		{name: "cited from elsewhere", log: steady.cited(elsewhere)},
		{name: "entries of times that fall", log: func() ratingLog {
			l := uneven.wait(aDay).violations(1).sessions(1, 50)
			l[len(l)-2].At, l[len(l)-1].At = l[0].At, l[1].At
			return l
		}()},
		{name: "an agent elsewhere", log: steady.accused(owner(2), wins), agent: elsewhere},
	} {
		v := ratingVector{Name: row.name, Log: row.log, Agent: row.agent, Verdict: "ok"}
		switch row.days {
		case 0:
		case -1:
			v.At = at - at%aDay - 29*aDay - 1
		default:
			v.At = at - at%aDay + (row.days-30)*aDay
		}
		v.Rating = json.RawMessage(f.follows(v))
		f.Vectors = append(f.Vectors, v)
	}
	for _, row := range []struct {
		name string
		of   accrual.Factors
	}{
		// The first two are the seed's, which rounds on its way and prints 19.38 and 33.27.
		{"the worked example", accrual.Factors{C: 0.82, T: 0.90, P: 0.62, V: 0.55, Q: 0.30}},
		{"the worked example, after it was validated", accrual.Factors{C: 0.82, T: 0.90, P: 0.62, V: 0.80, Q: 0.10}},
		{"factors of nothing", accrual.Factors{}}, {"all there can be", accrual.Factors{C: 1, T: 1, P: 1, V: 1}},
		{"the largest penalty", accrual.Factors{C: 1, T: 1, P: 1, V: 1, Q: 3}},
		{"a third", accrual.Factors{C: 1, T: 1, P: 1, V: 1, Q: 2}},
	} {
		v := ratingVector{Name: row.name, Factors: &row.of, Verdict: "ok"}
		v.Rating = json.RawMessage(f.follows(v))
		f.Vectors = append(f.Vectors, v)
	}
	return f
}
