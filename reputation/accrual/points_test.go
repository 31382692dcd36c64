package accrual_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
)

func (l *script) kept(id string) *script {
	l.entries = append(l.entries,
		accrual.Entry{At: l.tick(), Dispute: &accrual.Dispute{ID: id, Outcome: accrual.TargetWins, Bonus: true}})
	return l
}

func (l *script) raised(id, outcome string, bonus bool) *script {
	l.entries = append(l.entries,
		accrual.Entry{At: l.tick(), Raised: &accrual.Raised{ID: id, Outcome: outcome, Bonus: bonus}})
	return l
}

func (l *script) losses(n int) *script {
	for i := range n {
		l.raised(fmt.Sprint("loss", i), accrual.TargetWins, false)
	}
	return l
}

// TestConsequences: what the golden vectors do not show.
func TestConsequences(t *testing.T) {
	type want struct {
		score, lower                  float64
		tier                          string
		points, won, lost             int64
		challengesWon, challengesLost int64
		disputed                      bool
	}
	const wins = accrual.ChallengerWins
	for name, c := range map[string]struct {
		log  *script
		want want
	}{
		"a lost dispute leaves the points that were lost": {
			sessions(100, 60).losses(1).dispute("d", wins).sessions(1, 50),
			want{tier: "new", points: -5, lost: 1, challengesLost: 1, disputed: true}},
		"points give no score where there is none": {newScript().dispute("d", wins).raised("a", wins, true),
			want{tier: "new", points: 2, won: 1, challengesLost: 1, disputed: true}},
		"points are lost for each dispute": {sessions(20, 60).losses(3),
			want{score: 45, lower: 45, tier: "building", points: -15, lost: 3}},
		"the score falls to 0": {sessions(20, 60).losses(13),
			want{tier: "new", points: -65, lost: 13}},
		"and no further than to 0": {sessions(20, 60).losses(30),
			want{tier: "new", points: -100, lost: 30}},
		"what was gained makes up for a loss": {
			sessions(100, 52).losses(1).raised("a", wins, true).kept("b").kept("c").kept("e"),
			want{score: 52, lower: 52, tier: "established", points: 0, won: 1, lost: 1, challengesWon: 3}},
		"sessions of one event are one": {sessions(20, 60).losses(1).again(30, 60),
			want{score: 55, lower: 55, tier: "building", points: -5, lost: 1}},
		"a loss as a challenger bars no tier": {sessions(480, 80).losses(1).sessions(20, 80),
			want{score: 80, lower: 80, tier: "trusted", lost: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.log.reputation(t)
			check.WantEqual(t,
				want{r.CurrentScore, r.Lower, r.Tier, r.DisputePoints, r.DisputesWon, r.DisputesLost,
					r.ChallengesWon, r.ChallengesLost, r.Disputed}, c.want)
			signed := accrual.ClaimsOf(r, nil)
			accrual.Kind.Stamp(&signed, evidence.Registered{Issuer: "i", Audience: "a", ID: "j", IssuedAt: 1, Expires: 2},
				evidence.KeyClaims{KeyCustody: "external_mediator"})
			_, err := evidence.Sign(t.Context(), key{}, accrual.Kind, signed)
			check.Must(t, err)
		})
	}
}

type key struct{}

func (key) KeyID() string { return "k:v1" }

func (key) Sign(context.Context, []byte) ([]byte, error) {
	return make([]byte, ed25519.SignatureSize), nil
}

func (l *script) again(n int, score float64) *script {
	for range n {
		s := session(len(l.entries), score)
		s.EventID = "evt_again"
		l.add(s)
	}
	return l
}

func TestDisputesThatContradict(t *testing.T) {
	const wins, loses = accrual.ChallengerWins, accrual.TargetWins
	a := sessions(1, 50).raised("r", wins, true).kept("k").dispute("o", "").replay(t)
	before, log := a.Reputation(), a.Log()
	dispute := func(id, outcome string, bonus bool) accrual.Entry {
		return accrual.Entry{At: 1, Dispute: &accrual.Dispute{ID: id, Outcome: outcome, Bonus: bonus}}
	}
	raised := func(id, outcome string, bonus bool) accrual.Entry {
		return accrual.Entry{At: 1, Raised: &accrual.Raised{ID: id, Outcome: outcome, Bonus: bonus}}
	}
	for name, c := range map[string]struct {
		entry   accrual.Entry
		refused bool
	}{
		"raised again":                  {raised("r", wins, true), false},
		"raised, without the bonus":     {raised("r", wins, false), true},
		"raised, and lost":              {raised("r", loses, false), true},
		"kept again":                    {dispute("k", loses, true), false},
		"kept, and open again":          {dispute("k", "", false), false},
		"kept, without the bonus":       {dispute("k", loses, false), true},
		"accused in what it has raised": {dispute("r", "", false), true},
		"raised what it is accused of":  {raised("o", wins, false), true},
		"raised, and open":              {raised("x", "", false), true},
		"a bonus for a loss":            {raised("x", loses, true), true},
		"a bonus for the accused's":     {dispute("x", wins, true), true},
		"a bonus for nobody":            {dispute("x", accrual.Inconclusive, true), true},
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

func TestAgentsElsewhere(t *testing.T) {
	public, _, err := ed25519.GenerateKey(strings.NewReader(strings.Repeat("seed", 8)))
	check.Must(t, err)
	id := evidence.DIDKey(public)
	a, err := accrual.ParseAgent(id)
	check.Must(t, err)
	check.WantEqual(t, a, accrual.Agent{Subject: id})
	check.WantEqual(t, a.String(), id)
	got, ok := a.Key()
	if !ok || !got.Equal(public) {
		t.Errorf("its key is %x", got)
	}
	if _, ok := agent.Key(); ok {
		t.Error("an owner's agent has a key of its own")
	}
	for _, id := range []string{"did:key:", id + "1", id[:len(id)-1], strings.ToUpper(id), "did:web:example.org",
		"did:key:z" + strings.Repeat("1", 47), "did:key:z" + strings.Repeat("z", 47), "did:key:z0" + id[10:], ":" + id} {
		if _, err := accrual.ParseAgent(id); err == nil {
			t.Errorf("%q is taken", id)
		}
	}
	other := accrual.Agent{Owner: strings.Repeat("p", 43), Subject: agent.Subject}
	for _, c := range []struct {
		a, b accrual.Agent
		want bool
	}{{agent, agent, true}, {agent, other, false}, {agent, a, true}, {a, other, true}, {a, a, true}} {
		check.WantEqual(t, c.a.SameOwner(c.b), c.want)
	}
}
