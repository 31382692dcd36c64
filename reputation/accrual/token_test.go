package accrual_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func claims(t testing.TB) accrual.Claims {
	c := accrual.ClaimsOf(
		newScript().sessions(30, 40).dispute("d", "challenger_wins").sessions(1, 49).sessions(1, 50).sessions(1,
			51).reputation(t), passed())
	accrual.Kind.Stamp(&c, evidence.NewRegistered("mediator-appraiser", "posting-api", gatetest.Start, accrual.Lifetime),
		evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator})
	return c
}

func passed() *accrual.Verified {
	return &accrual.Verified{Result: evidence.HashBytes([]byte("result")), At: gatetest.Start.Unix(),
		Expires: gatetest.Start.Add(24 * time.Hour).Unix(), Mode: accrual.ModeObserved}
}

func TestToken(t *testing.T) {
	k := gatetest.New(t, gatetest.Autonomous)
	k.Appraise(t)
	key := k.Key(t, evidence.PurposeAppraiser)
	long := newScript()
	for i := range 40 {
		s := session(i, 33.333333)
		s.ID, s.EventID = fmt.Sprintf("%03d", i)+strings.Repeat("\"", 125), strings.Repeat("é", 120)+fmt.Sprint(i)
		long.add(s)
	}
	for name, r := range map[string]accrual.Reputation{
		"nothing": newScript().reputation(t), "much": random50(t), "the longest": long.reputation(t),
	} {
		t.Run(name, func(t *testing.T) {
			c := accrual.ClaimsOf(r, passed())
			accrual.Kind.Stamp(&c, evidence.NewRegistered("mediator-appraiser", "posting-api", k.Clock.Now(), accrual.Lifetime),
				evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator})
			token, err := evidence.Sign(t.Context(), key, accrual.Kind, c)
			check.Must(t, err)
			if len(token) > 12<<10 {
				t.Errorf("it has %d bytes", len(token))
			}
			o, err := evidence.Open(k.Verifier, accrual.Kind, token, k.Strict.Autonomy.Expected)
			check.Must(t, err)
			check.WantEqual(t, o.Claims(), c)
		})
	}
}

func random50(t testing.TB) accrual.Reputation {
	l := newScript()
	for i := range 50 {
		l.sessions(1, float64(i*2)+0.25)
	}
	return l.dispute("d", "").reputation(t)
}

// TestClaimsThatAreNoReputation: what the golden vectors do not show.
func TestClaimsThatAreNoReputation(t *testing.T) {
	k := gatetest.New(t, gatetest.Autonomous)
	k.Appraise(t)
	key := k.Key(t, evidence.PurposeAppraiser)
	for name, edit := range map[string]func(*accrual.Claims){
		"no custody":                  func(c *accrual.Claims) { c.KeyCustody = "" },
		"another owner":               func(c *accrual.Claims) { c.Owner = strings.Repeat("x", 43) },
		"another agent":               func(c *accrual.Claims) { c.Agent = "agent:worker-2" },
		"no agent":                    func(c *accrual.Claims) { c.AgentID, c.Agent = c.Owner+":", "" },
		"no head":                     func(c *accrual.Claims) { c.Log.Head = strings.ToUpper(c.Log.Head) },
		"no entries":                  func(c *accrual.Claims) { c.Log.Entries = 0 },
		"entries below 0":             func(c *accrual.Claims) { c.Log.Entries = -1 },
		"no lost dispute":             func(c *accrual.Claims) { c.ChallengesLost, c.Disputed = 0, false },
		"won below 0":                 func(c *accrual.Claims) { c.ChallengesWon = -1 },
		"lost below 0":                func(c *accrual.Claims) { c.ChallengesLost = -1 },
		"pending below 0":             func(c *accrual.Claims) { c.DisputesPending = -1 },
		"won as a challenger below 0": func(c *accrual.Claims) { c.DisputesWon = -1 },
		"more raised than entries":    func(c *accrual.Claims) { c.DisputesWon = 100 },
		"more points than can be": func(c *accrual.Claims) {
			c.Log.Entries, c.DisputesWon, c.DisputePoints, c.CurrentScore = 100, 9, 6, 56
		},
		"a score while it is disputed":     func(c *accrual.Claims) { c.CurrentScore = 50 },
		"a lower end while it is disputed": func(c *accrual.Claims) { c.Lower = 1 },
		"more received than entries":       func(c *accrual.Claims) { c.ChallengesReceived = 100 },
		"flagged below 0":                  func(c *accrual.Claims) { c.FlaggedInteractions = -1 },
		"fewer sessions than history": func(c *accrual.Claims) {
			c.TotalSessions, c.TotalInteractions, c.FlaggedInteractions = 2, 2, 0
		},
		"another coverage in the history": func(c *accrual.Claims) { c.ScoreHistory[0].Coverage = 0.25 },
		"a score above 100":               func(c *accrual.Claims) { c.ScoreHistory[0].Score = 101 },
		"a score of many digits":          func(c *accrual.Claims) { c.ScoreHistory[0].Score = 49.00000001 },
		"a coverage above 1":              func(c *accrual.Claims) { c.ScoreHistory[0].Coverage = 2 },
		"a session without id":            func(c *accrual.Claims) { c.ScoreHistory[0].SessionID = "" },
		"a session twice": func(c *accrual.Claims) {
			c.ScoreHistory[0].SessionID = c.ScoreHistory[1].SessionID
		},
		"a session without time":           func(c *accrual.Claims) { c.ScoreHistory[0].Timestamp = 0 },
		"a verification that ends at once": func(c *accrual.Claims) { c.Verification.Expires = c.Verification.At },
		"a verification in another mode":   func(c *accrual.Claims) { c.Verification.Mode = "" },
	} {
		t.Run(name, func(t *testing.T) {
			c := claims(t)
			edit(&c)
			_, err := evidence.Sign(t.Context(), key, accrual.Kind, c)
			check.WantCode(t, err, "artifact_malformed")
		})
	}
	c := claims(t)
	_, err := evidence.Sign(t.Context(), key, accrual.Kind, c)
	check.Must(t, err)
	c.Expires = c.IssuedAt + int64(accrual.Lifetime/time.Second) + 1
	_, err = evidence.Sign(t.Context(), key, accrual.Kind, c)
	check.WantCode(t, err, "artifact_malformed")
}

// FuzzClaims: parsed claims are consistent and are encoded as they were.
func FuzzClaims(f *testing.F) {
	k := gatetest.New(f, gatetest.Autonomous)
	f.Add(payload(f, k.Reputation(f, agent, 3, 50)))
	f.Add([]byte(`{"score_history":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		token := gatetest.Forge(t, k.Key(t, evidence.PurposeAppraiser),
			`{"alg":"EdDSA","kid":"appraiser-key:v1","typ":"reputation+jwt"}`, raw)
		c, err := evidence.UnverifiedClaims(accrual.Kind, token)
		if err != nil {
			return
		}
		again, err := evidence.Sign(t.Context(), k.Key(t, evidence.PurposeAppraiser), accrual.Kind, c)
		if err != nil || again != token {
			t.Errorf("%s is written as %s, %v", token, again, err)
		}
		if c.CurrentScore < c.Lower || c.Counted() < 0 || accrual.Rank(c.Tier) < 0 {
			t.Errorf("%+v", c)
		}
	})
}

func payload(t testing.TB, token string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	check.Must(t, err)
	return raw
}

func TestVerifiedCounts(t *testing.T) {
	end := gatetest.Start.Add(24 * time.Hour)
	for name, c := range map[string]struct {
		edit      func(v *accrual.Verified)
		at        time.Time
		strict    bool
		forgiving bool // of what is degraded
	}{
		"at once":    {func(*accrual.Verified) {}, gatetest.Start, true, true},
		"to the end": {func(*accrual.Verified) {}, end.Add(-time.Nanosecond), true, true},
		"in no mode": {func(v *accrual.Verified) { v.Mode = "" }, gatetest.Start, false, false},
	} {
		v := passed()
		c.edit(v)
		if strict, forgiving := v.Counts(c.at, false), v.Counts(c.at, true); strict != c.strict || forgiving != c.forgiving {
			t.Errorf("%s: %v, %v", name, strict, forgiving)
		}
	}
	if (*accrual.Verified)(nil).Counts(gatetest.Start, true) {
		t.Error("none counts")
	}
	if v := passed(); v.Age(gatetest.Start.Add(time.Hour)) != time.Hour || v.Age(gatetest.Start.Add(-time.Hour)) != 0 {
		t.Error("another age")
	}
}
