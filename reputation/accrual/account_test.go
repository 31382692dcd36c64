package accrual_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
)

var (
	agent   = accrual.Agent{Owner: strings.Repeat("o", 43), Subject: "agent:worker-1"}
	scoring = evidence.HashBytes([]byte("formulas"))
	other   = evidence.HashBytes([]byte("other formulas"))
)

type clock struct{ now int64 }

func (c *clock) tick() int64 { c.now++; return c.now }

type script struct {
	clock
	entries []accrual.Entry
}

func newScript() *script { return &script{clock: clock{1_800_000_000}} }

func (l *script) add(s accrual.Session) *script {
	l.entries = append(l.entries, accrual.Entry{At: l.tick(), Session: &s})
	return l
}

func (l *script) dispute(id, outcome string) *script {
	l.entries = append(l.entries, accrual.Entry{At: l.tick(), Dispute: &accrual.Dispute{ID: id, Outcome: outcome}})
	return l
}

func session(n int, score float64) accrual.Session {
	return accrual.Session{
		ID: fmt.Sprint("ses_", n), EventID: fmt.Sprint("evt_", n), Score: score, Coverage: 0.5, ScoringHash: scoring,
		Interactions: 3, Hosts: []string{"api.example.com:443"},
	}
}

func (l *script) sessions(n int, score float64) *script {
	for range n {
		l.add(session(len(l.entries), score))
	}
	return l
}

func sessions(n int, score float64) *script { return newScript().sessions(n, score) }

func (l *script) replay(t testing.TB) *accrual.Account {
	t.Helper()
	a, err := accrual.Replay(agent, l.entries, scoring)
	check.Must(t, err)
	return a
}

func (l *script) reputation(t testing.TB) accrual.Reputation {
	t.Helper()
	return l.replay(t).Reputation()
}

// TestRules: what the golden vectors do not show.
func TestRules(t *testing.T) {
	type want struct {
		score, lower    float64
		trend, tier     string // by default stable and new
		sessions, flags int64  // in all, and before the last lost dispute
		received, lost  int64
	}
	with := func(n int, score float64, edit func(*accrual.Session)) accrual.Session {
		s := session(n, score)
		edit(&s)
		return s
	}
	of := func(event string) func(*accrual.Session) { return func(s *accrual.Session) { s.EventID = event } }
	for name, c := range map[string]struct {
		log  *script
		want want
	}{
		"three sessions": {sessions(1, 49).sessions(1, 50).sessions(1, 51),
			want{score: 50, lower: 47.515835, sessions: 3}},
		"equal sessions have no spread": {sessions(9, 50), want{score: 50, lower: 50, sessions: 9}},
		"the window is not full at 19": {sessions(19, 30),
			want{score: 30, lower: 30, tier: "building", sessions: 19}},
		"the window is full at 20": {sessions(20, 30), want{score: 30, lower: 30, tier: "building", sessions: 20}},
		"a trend of exactly 2 below is stable": {sessions(15, 50).sessions(5, 48),
			want{score: 49.5, lower: 49.084163, tier: "building", sessions: 20}},
		"six sessions have a trend": {sessions(1, 0).sessions(5, 90),
			want{score: 75, lower: 36.441, trend: "rising", sessions: 6}},
		"a trend looks at the window alone": {sessions(30, 90).sessions(15, 50).sessions(5, 50),
			want{score: 50, lower: 50, tier: "building", sessions: 50}},

		"established needs a hundred": {sessions(99, 50), want{score: 50, lower: 50, tier: "building", sessions: 99}},
		"trusted needs its score": {sessions(500, 69.99),
			want{score: 69.99, lower: 69.99, tier: "established", sessions: 500}},
		"verified needs a thousand": {sessions(999, 85), want{score: 85, lower: 85, tier: "trusted", sessions: 999}},
		"the tier falls with the score": {sessions(1000, 85).sessions(20, 10),
			want{score: 10, lower: 10, sessions: 1020}},
		"the tier is by the rounded mean": {sessions(9, 30).sessions(1, 29.999996),
			want{score: 30, lower: 29.999999, tier: "building", sessions: 10}},

		"a thousand calls of one session are one interaction": {newScript().add(with(0, 90, func(s *accrual.Session) {
			s.Interactions = 1000
		})), want{score: 90, sessions: 1}},
		"two sessions of one event count once, also where the lower came second": {
			newScript().add(with(0, 90, of("e"))).add(with(1, 40, of("e"))),
			want{score: 40, sessions: 1}},
		"late receipts replace the interactions": {newScript().add(with(0, 40, func(s *accrual.Session) {
			s.Interactions, s.Hosts = 0, []string{}
		})).add(session(0, 40)), want{score: 40, sessions: 1}},
		"a score that late receipts lower is the event's": {
			newScript().add(with(0, 40, of("e"))).add(with(1, 90, of("e"))).add(with(1, 30, of("e"))),
			want{score: 30, sessions: 1}},
		"a session is scored again": {newScript().add(with(0, 90, func(s *accrual.Session) {
			s.ScoringHash = other
		})).add(session(1, 50)).add(session(0, 90)), want{score: 70, sessions: 2}},
		"the coverage is the mean of the window": {newScript().add(with(0, 50, func(s *accrual.Session) {
			s.Coverage = 0
		})).add(with(1, 50, func(s *accrual.Session) { s.Coverage = 1 })), want{score: 50, lower: 50, sessions: 2}},

		"after a lost dispute score and interactions begin anew, with 20 sessions": {
			sessions(500, 70).dispute("d", "challenger_wins").sessions(20, 100),
			want{score: 100, lower: 100, tier: "building", sessions: 520, flags: 500, received: 1, lost: 1}},
		"until then the score is 0": {sessions(500, 70).dispute("d", "challenger_wins").sessions(19, 100),
			want{sessions: 519, flags: 500, received: 1, lost: 1}},
		"who has lost one is never trusted again": {newScript().dispute("d", "challenger_wins").sessions(1000, 100),
			want{score: 100, lower: 100, tier: "established", sessions: 1000, received: 1, lost: 1}},
		"another session of a flagged event stays flagged": {
			newScript().add(with(0, 50, of("e"))).dispute("d", "challenger_wins").add(with(1, 90, of("e"))),
			want{sessions: 1, flags: 1, received: 1, lost: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := c.log.reputation(t), c.want
			history := int(min(20, w.sessions-w.flags))
			check.WantEqual(t, []float64{r.CurrentScore, r.Lower, r.Coverage},
				[]float64{w.score, w.lower, 0.5 * float64(min(1, history))})
			check.WantEqual(t, []string{r.ScoreTrend, r.Tier}, []string{cmp.Or(w.trend, "stable"), cmp.Or(w.tier, "new")})
			check.WantEqual(t,
				[]int64{r.TotalSessions, r.TotalInteractions, r.FlaggedInteractions, r.ChallengesReceived, r.ChallengesWon,
					r.ChallengesLost}, []int64{w.sessions, w.sessions, w.flags, w.received, 0, w.lost})
			check.WantEqual(t, len(r.ScoreHistory), history)
			check.WantEqual(t, []bool{r.Provisional, r.Disputed}, []bool{history < 20, w.lost > 0 && history < 20})
			check.WantEqual(t, []string{r.AgentID, r.Owner, r.Agent, r.ScoringHash},
				[]string{agent.String(), agent.Owner, agent.Subject, scoring})
		})
	}
}

func TestHistory(t *testing.T) {
	l := newScript().add(session(1, 10)).add(session(2, 20)).add(session(1, 15))
	r, begin := l.reputation(t), int64(1_800_000_000)
	check.WantEqual(t, r.ScoreHistory, []accrual.ScoredSession{
		{Timestamp: begin + 3, Score: 15, SessionID: "ses_1", Coverage: 0.5},
		{Timestamp: begin + 2, Score: 20, SessionID: "ses_2", Coverage: 0.5},
	})
	check.WantEqual(t, r.FirstSeen, begin+1)
	check.WantEqual(t, r.Log.Entries, int64(3))
}

func TestWhatSaysNothingNew(t *testing.T) {
	a := newScript().add(session(1, 10)).dispute("d", "").dispute("d", "target_wins").dispute("f", "").replay(t)
	before, log := a.Reputation(), a.Log()
	moved := session(1, 10)
	moved.EventID = "evt_2"
	same := session(1, 10)
	for name, c := range map[string]struct {
		entry   accrual.Entry
		refused bool
	}{
		"the session again": {accrual.Entry{At: 1, Session: &same}, false},
		"the dispute again": {accrual.Entry{At: 1, Dispute: &accrual.Dispute{ID: "d", Outcome: "target_wins"}},
			false},
		"the dispute, open again":    {accrual.Entry{At: 1, Dispute: &accrual.Dispute{ID: "d"}}, false},
		"the open dispute again":     {accrual.Entry{At: 1, Dispute: &accrual.Dispute{ID: "f"}}, false},
		"the session as of an event": {accrual.Entry{At: 1, Session: &moved}, true},
		"the dispute ended otherwise": {accrual.Entry{At: 1, Dispute: &accrual.Dispute{ID: "d", Outcome: "challenger_wins"}},
			true},
		"no entry": {accrual.Entry{At: 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			added, err := a.Add(c.entry)
			if added || err != nil != c.refused {
				t.Errorf("added %t, %v", added, err)
			}
			check.WantEqual(t, a.Reputation(), before)
			check.WantEqual(t, a.Log(), log)
		})
	}
}

func TestReplay(t *testing.T) {
	for seed := range uint64(50) {
		l := random(rand.New(rand.NewPCG(seed, 0)))
		grown, err := accrual.NewAccount(agent, scoring)
		check.Must(t, err)
		var kept []accrual.Entry
		for _, e := range l.entries {
			raw, err := e.Encode()
			check.Must(t, err)
			e, err = accrual.ParseEntry(raw)
			check.Must(t, err)
			added, err := grown.Add(e)
			check.Must(t, err)
			if added {
				kept = append(kept, e)
			}
			grown.Reputation()
		}
		again, err := accrual.Replay(agent, kept, scoring)
		check.Must(t, err)
		if want, got := canonical(t, grown.Reputation()), canonical(t, again.Reputation()); got != want {
			t.Fatalf("seed %d:\n%s\nand again\n%s", seed, want, got)
		}
	}
	// Another order of the same entries is another log.
	l := newScript().sessions(2, 50)
	before := l.replay(t).Log()
	slices.Reverse(l.entries)
	if l.replay(t).Log() == before {
		t.Error("two logs have one head")
	}
	elsewhere, err := accrual.NewAccount(accrual.Agent{Owner: agent.Owner, Subject: "agent:worker-2"}, scoring)
	check.Must(t, err)
	if empty, err := accrual.NewAccount(agent, scoring); err != nil || empty.Log() == elsewhere.Log() {
		t.Error("the logs of two agents have one head")
	}
}

func random(r *rand.Rand) *script {
	l := newScript()
	ended := map[string]bool{}
	for range 200 {
		switch n := r.IntN(40); {
		case n < 30:
			s := session(r.IntN(60), float64(r.IntN(100_000))/1000)
			if r.IntN(5) == 0 {
				s.Interactions, s.Hosts = 0, []string{}
			}
			if r.IntN(10) == 0 {
				s.ScoringHash = other
			}
			s.Coverage = float64(r.IntN(100)) / 100
			s.EventID = fmt.Sprint("evt_", len(s.ID)*7, s.ID[len(s.ID)-1:]) // several sessions share one
			l.add(s)
		default:
			id := fmt.Sprint("d", r.IntN(5))
			if !ended[id] {
				ended[id] = true
				l.dispute(id, []string{"", accrual.TargetWins, accrual.Inconclusive, accrual.ChallengerWins}[min(3, r.IntN(12))])
				ended[id] = l.entries[len(l.entries)-1].Dispute.Outcome != ""
			}
		}
	}
	return l
}

func TestNothingIsFarmed(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := random(r)
		a := l.replay(t)
		before := a.Reputation()
		more := session(10_000, 100)
		more.EventID = counted(l)
		added, err := a.Add(accrual.Entry{At: l.tick(), Session: &more})
		check.Must(t, err)
		after := a.Reputation()
		if !added || after.TotalInteractions != before.TotalInteractions || after.TotalSessions != before.TotalSessions ||
			after.CurrentScore > before.CurrentScore ||
			accrual.Rank(after.Tier) > accrual.Rank(before.Tier) {
			t.Fatalf("seed %d: before %+v, after %+v", seed, before, after)
		}
	}
}

func counted(l *script) string {
	last := map[string]*accrual.Session{}
	for _, e := range l.entries {
		if e.Session != nil {
			last[e.Session.ID] = e.Session
		}
	}
	for _, id := range slices.Sorted(maps.Keys(last)) {
		if s := last[id]; s.Interactions > 0 && s.ScoringHash == scoring {
			return s.EventID
		}
	}
	panic("the log has none")
}

func TestRank(t *testing.T) {
	for i, tier := range []string{"new", "building", "established", "trusted", "verified"} {
		check.WantEqual(t, accrual.Rank(tier), int64(i))
	}
	check.WantEqual(t, accrual.Rank("New"), int64(-1))
}

func TestAgentIDs(t *testing.T) {
	for _, id := range []string{agent.String(), strings.Repeat("o", 43) + ":did:key:z6Mk"} {
		a, err := accrual.ParseAgent(id)
		check.Must(t, err)
		check.WantEqual(t, a.String(), id)
	}
	for _, id := range []string{"", "agent:worker-1", strings.Repeat("o", 43), strings.Repeat("o", 43) + ":",
		strings.Repeat("o", 42) + ":a", strings.Repeat("o", 43) + ":" + strings.Repeat("a", 257)} {
		if _, err := accrual.ParseAgent(id); err == nil {
			t.Errorf("%q is taken", id)
		}
	}
	for _, a := range []accrual.Agent{{}, {Owner: agent.Owner}, {Owner: strings.Repeat(":", 43), Subject: "a"}} {
		if _, err := accrual.NewAccount(a, scoring); err == nil {
			t.Errorf("%+v has an account", a)
		}
	}
}

func canonical(t testing.TB, v any) string {
	t.Helper()
	raw, err := strictjson.CanonicalOf(v)
	check.Must(t, err)
	return string(raw)
}

func BenchmarkReputation(b *testing.B) {
	a := newScript().sessions(10_000, 70).replay(b)
	b.ReportAllocs()
	for b.Loop() {
		a.Reputation()
	}
}
