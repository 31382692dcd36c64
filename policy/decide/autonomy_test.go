package decide_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// TestConditionsOnReputation asks for each variable of an agent with 120 sessions of 62.5 points, and of an unknown
// one.
func TestConditionsOnReputation(t *testing.T) {
	for _, c := range []struct {
		when, with, without string // codes; empty allows
	}{
		{`autonomy.known`, "", "policy_denied"},
		{`!autonomy.known`, "policy_denied", ""},
		{`autonomy.score == 62.5 && autonomy.score > 62`, "", "reputation_missing"},
		{`autonomy.lower == 62.5`, "", "reputation_missing"},
		{`!autonomy.provisional`, "", "reputation_missing"},
		{`autonomy.provisional`, "policy_denied", "reputation_missing"},
		{`autonomy.tier == "established"`, "", "reputation_missing"},
		{`autonomy.tier in ["trusted", "verified"]`, "policy_denied", "reputation_missing"},
		{`autonomy.tierRank >= 2 && autonomy.tierRank < 3`, "", "reputation_missing"},
		{`autonomy.interactions == 120`, "", "reputation_missing"},
		{`autonomy.coverage == 0.5`, "", "reputation_missing"},
		{`autonomy.tierRank != 0`, "", "reputation_missing"},
		{`!(autonomy.tierRank == 0)`, "", "reputation_missing"},
		{`autonomy.known && autonomy.tierRank >= 2`, "", "policy_denied"},
		{`!autonomy.known || autonomy.tierRank >= 2`, "", ""},
		{`autonomy.known ? autonomy.tierRank >= 3 : request.size < 10`, "policy_denied", ""},
		{`request.size < 10`, "", ""},
		{`args.repo == "a" || autonomy.tierRank > 3`, "policy_error", "reputation_missing"},
	} {
		t.Run(c.when, func(t *testing.T) {
			r := newWorld(t, file("r allow "+c.when), gatetest.Autonomous)
			for token, code := range map[string]string{r.Reputation(t, r.Agent(t), 120, 62.5): c.with, "": c.without} {
				d, err := r.decide(r.appraised(token))
				if code != "" {
					check.WantCode(t, err, code)
					continue
				}
				check.Must(t, err)
				want := ""
				if token != "" && strings.Contains(c.when, "autonomy") {
					want = evidence.HashToken(token)
				}
				check.WantEqual(t, d.ReputationHash, want)
			}
		})
	}
}

// TestConditionsOnDisputes asks for each variable of an agent that has lost a dispute, an accused one, a rated one, and
// an unknown one.
func TestConditionsOnDisputes(t *testing.T) {
	const lost, accused, rated, noToken = "lost", "accused", "rated", "no token"
	all := []string{lost, accused, rated, noToken}
	token := func(t *testing.T, r *world, which string) string {
		c := r.ReputationOf(t, r.Agent(t), 20, 50)
		switch which {
		case noToken:
			return ""
		case lost:
			c = r.ReputationOf(t, r.Agent(t), 3, 50)
			gatetest.Lose(&c)
		case accused:
			c.ChallengesReceived, c.DisputesPending, c.Log.Entries = 2, 2, c.Log.Entries+2
		case rated:
			c.Rating = &accrual.Rated{R: 72.5, Q: 0.25, Tier: "A"}
		}
		r.Appraise(t)
		signed, _, err := gatetest.Signer(t, r.Kit, accrual.Kind).Sign(t.Context(), c)
		check.Must(t, err)
		return signed
	}
	const missing, unrated, denied = "reputation_missing", "reputation_insufficient", "policy_denied"
	for _, c := range []struct {
		when  string
		codes []string // as all; empty allows
	}{
		{`!autonomy.disputed`, []string{denied, "", "", missing}},
		{`autonomy.disputed`, []string{"", denied, denied, missing}},
		{`autonomy.disputesPending == 0`, []string{"", denied, "", missing}},
		{`autonomy.disputesPending == 2`, []string{denied, "", denied, missing}},
		{`autonomy.r == 72.5 && autonomy.r >= 70`, []string{unrated, unrated, "", missing}},
		{`autonomy.r < 70`, []string{unrated, unrated, denied, missing}},
		{`autonomy.q == 0.25`, []string{unrated, unrated, "", missing}},
		{`!(autonomy.q > 1)`, []string{unrated, unrated, "", missing}},
		{`autonomy.r > 70 || autonomy.tierRank >= 0`, []string{"", "", "", missing}},
		{`autonomy.known && !autonomy.disputed`, []string{denied, "", "", denied}},
	} {
		t.Run(c.when, func(t *testing.T) {
			for i, which := range all {
				r := newWorld(t, file("r allow "+c.when), gatetest.Autonomous)
				_, err := r.decide(r.appraised(token(t, r, which)))
				wantVerdict(t, err, c.codes[i])
			}
		})
	}
}

func TestExamplePolicyOnDisputes(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*accrual.Claims)
		code string
	}{
		"as it is": {func(*accrual.Claims) {}, ""},
		"accused":  {func(c *accrual.Claims) { c.ChallengesReceived, c.DisputesPending = 1, 1; c.Log.Entries++ }, ""},
		"lost":     {gatetest.Lose, "policy_denied"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newWorld(t, string(configs.PolicyReputation()), gatetest.Autonomous)
			r.Appraise(t)
			claims := r.ReputationOf(t, r.Agent(t), 12, 50)
			c.edit(&claims)
			token, _, err := gatetest.Signer(t, r.Kit, accrual.Kind).Sign(t.Context(), claims)
			check.Must(t, err)
			_, err = r.decide(r.appraised(token))
			wantVerdict(t, err, c.code, "lost-a-dispute")
		})
	}
}

// TestConditionsOnVerification asks for each variable of agents that passed different verifications two hours ago, and
// of one that has none.
func TestConditionsOnVerification(t *testing.T) {
	const observed, degraded, seed, over, never, noToken = "observed", "degraded", "seed", "over", "never", "no token"
	verified := func(t *testing.T, r *world, which string) string {
		v := r.Verified()
		switch which {
		case degraded:
			v.Degraded = true
		case seed:
			v.Mode = accrual.ModeSeed
		case over:
			v.At, v.Expires = v.At-100, r.Clock.Now().Add(2*time.Hour).Unix()
		case never:
			v = nil
		case noToken:
			return ""
		}
		r.Clock.Advance(2 * time.Hour)
		return r.ReputationVerified(t, r.Agent(t), 1, 50, v)
	}
	all := []string{observed, degraded, seed, over, never, noToken}
	strict := func(*policy.Manifest) {}
	lenient := func(m *policy.Manifest) { m.AutonomyPolicy.AllowDegraded = true }
	required := func(m *policy.Manifest) { m.AutonomyPolicy.RequireVerification = true }
	const unverified, missing, denied = "reputation_insufficient", "reputation_missing", "policy_denied"
	for name, c := range map[string]struct {
		when  string
		edit  func(*policy.Manifest)
		codes []string // as all; empty allows
	}{
		"verified":         {`autonomy.verified`, strict, []string{"", denied, denied, denied, denied, missing}},
		"not verified":     {`!autonomy.verified`, strict, []string{denied, "", "", "", "", missing}},
		"degraded allowed": {`autonomy.verified`, lenient, []string{"", "", denied, denied, denied, missing}},
		"young": {`autonomy.verifiedAge <= duration("2h")`, strict,
			[]string{"", unverified, unverified, unverified, unverified, missing}},
		"too young": {`autonomy.verifiedAge < duration("2h")`, strict,
			[]string{denied, unverified, unverified, unverified, unverified, missing}},
		"old": {`autonomy.verifiedAge > duration("1h")`, lenient,
			[]string{"", "", unverified, unverified, unverified, missing}},
		"since": {`now - autonomy.verifiedAge > timestamp("2020-01-01T00:00:00Z")`, strict,
			[]string{"", unverified, unverified, unverified, unverified, missing}},
		"whole": {`!autonomy.degraded`, lenient,
			[]string{"", denied, unverified, unverified, unverified, missing}},
		"degraded": {`autonomy.degraded`, lenient,
			[]string{denied, "", unverified, unverified, unverified, missing}},
		"degraded, and not allowed": {`autonomy.degraded`, strict,
			[]string{denied, unverified, unverified, unverified, unverified, missing}},
		"either": {`autonomy.verified || autonomy.tierRank >= 0`, strict,
			[]string{"", "", "", "", "", missing}},
		"required for a score": {`autonomy.score > 40`, required,
			[]string{"", unverified, unverified, unverified, unverified, missing}},
		"required, not asked": {`request.size < 10`, required, []string{"", "", "", "", "", ""}},
		"required, and not known": {`!autonomy.known`, required,
			[]string{denied, unverified, unverified, unverified, unverified, ""}},
		"required, and known": {`autonomy.known`, required,
			[]string{"", unverified, unverified, unverified, unverified, denied}},
		"required, beside a score": {`!autonomy.known || autonomy.score > 40`, required,
			[]string{"", unverified, unverified, unverified, unverified, ""}},
		"required, if it is known": {`autonomy.known ? autonomy.score > 40 : true`, required,
			[]string{"", unverified, unverified, unverified, unverified, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, which := range all {
				r := newWorld(t, file("r allow "+c.when), gatetest.Autonomous, c.edit)
				_, err := r.decide(r.appraised(verified(t, r, which)))
				wantVerdict(t, err, c.codes[i])
			}
		})
	}
	t.Run("it ends between two posts", func(t *testing.T) {
		r := newWorld(t, file("r allow autonomy.verifiedAge >= duration('0s')"), gatetest.Autonomous)
		v := r.Verified()
		v.Expires = v.At + 60
		token := r.ReputationVerified(t, r.Agent(t), 1, 50, v)
		_, err := r.decide(r.appraised(token))
		check.Must(t, err)
		r.Clock.Advance(time.Minute)
		_, err = r.decide(r.appraised(token))
		check.WantCode(t, err, "reputation_insufficient", "the last one has expired")
	})
}

// TestExampleOfVerified checks the example: a verification allows longer posts, and short posts need none.
func TestExampleOfVerified(t *testing.T) {
	passed := func(*accrual.Verified) {}
	for name, c := range map[string]struct {
		sessions int
		verified func(v *accrual.Verified) // nil if it has passed none
		after    time.Duration
		size     int64
		rule     string // empty denies
	}{
		"new":                          {1, nil, 0, 4 << 10, "newcomers"},
		"new and verified, long":       {1, passed, 0, 5 << 10, ""},
		"building, short":              {20, nil, 0, 64 << 10, "building"},
		"building, long":               {20, nil, 0, 65 << 10, ""},
		"building and verified, long":  {20, passed, 0, 65 << 10, "building-verified"},
		"building and verified, short": {20, passed, 0, 64 << 10, "building"},
		"verified long ago":            {20, passed, 6 * time.Hour, 65 << 10, ""},
		"degraded":                     {20, func(v *accrual.Verified) { v.Degraded = true }, 0, 65 << 10, ""},
		"in the mode seed":             {20, func(v *accrual.Verified) { v.Mode = accrual.ModeSeed }, 0, 65 << 10, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newWorld(t, string(configs.PolicyReputation()), gatetest.Autonomous, func(m *policy.Manifest) {
				m.AutonomyPolicy.AllowDegraded = true
			})
			var v *accrual.Verified
			if c.verified != nil {
				v = r.Verified()
				c.verified(v)
			}
			r.Clock.Advance(c.after)
			request := r.appraised(r.ReputationVerified(t, r.Agent(t), c.sessions, 40, v))
			request.Call.Size = c.size
			d, err := r.decide(request)
			if c.rule == "" {
				check.WantCode(t, err, "policy_denied")
				return
			}
			check.Must(t, err)
			check.WantEqual(t, d.Rule, c.rule)
		})
	}
}

// TestReputationsThatAreNotBelieved: the golden vectors have the other tokens that are refused.
func TestReputationsThatAreNotBelieved(t *testing.T) {
	valid := func(t *testing.T, r *world) string { return r.Reputation(t, r.Agent(t), 500, 90) }
	for name, c := range map[string]struct {
		token func(t *testing.T, r *world) string
		code  string
	}{
		"none": {func(*testing.T, *world) string { return "" }, "reputation_missing"},
		"one that has ended": {func(t *testing.T, r *world) string {
			token := valid(t, r)
			r.Clock.Advance(accrual.Lifetime + 3*time.Second)
			return token
		}, "expired"},
		"another agent's": {func(t *testing.T, r *world) string {
			return r.Reputation(t, accrual.Agent{Owner: r.Owner(t), Subject: "agent:worker-2"}, 500, 90)
		}, "reputation_mismatch"},
		"by a stranger": {func(t *testing.T, r *world) string {
			c, err := evidence.UnverifiedClaims(accrual.Kind, valid(t, r))
			check.Must(t, err)
			stranger := gatetest.StrangerKey(t, r.Key(t, evidence.PurposeAppraiser).KeyID())
			token, err := evidence.Sign(t.Context(), stranger, accrual.Kind, c)
			check.Must(t, err)
			return token
		}, "signature_invalid"},
		"by a key that is revoked": {func(t *testing.T, r *world) string {
			token := valid(t, r)
			r.Revoke(t, evidence.Revocation{Kind: "key", ID: r.Key(t, evidence.PurposeAppraiser).KeyID()})
			r.Verifier.SetTrust(r.Trust(t))
			return token
		}, "revoked"},
		"no token": {func(*testing.T, *world) string { return "x" }, "artifact_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			for when, want := range map[string]string{
				"autonomy.tierRank > 0": c.code, "autonomy.known && autonomy.tierRank > 0": "policy_denied",
				"!autonomy.known": "",
			} {
				r := newWorld(t, file("r allow "+when), gatetest.Autonomous)
				d, err := r.decide(r.appraised(c.token(t, r)))
				check.WantEqual(t, d.ReputationHash, "")
				if wantVerdict(t, err, want); want == "policy_denied" {
					check.WantCode(t, err, want, "whose agent's reputation is not known: ")
				}
			}
		})
	}
	t.Run("and not a valid one", func(t *testing.T) {
		r := newWorld(t, file("r allow autonomy.tierRank > 0"), gatetest.Autonomous)
		_, err := r.decide(r.appraised(valid(t, r)))
		check.Must(t, err)
	})
}

// TestReputationIsJudgedForEachPost checks that an opened token loses its value when the time, the trust or the agent
// changes.
func TestReputationIsJudgedForEachPost(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, r *world, next *policy.Request)
		code   string
	}{
		"the time": {func(t *testing.T, r *world, next *policy.Request) {
			r.Clock.Advance(accrual.Lifetime + 3*time.Second)
			*next = r.appraised(next.Reputation)
		}, "expired"},
		"the trust": {func(t *testing.T, r *world, _ *policy.Request) {
			r.Verifier.SetTrust(r.TrustWithout(t, evidence.PurposeAppraiser))
		}, "key_unknown"},
		"the agent": {func(t *testing.T, r *world, next *policy.Request) {
			next.Binding.Subject = "agent:worker-2"
			next.OriginProof, next.TriggerReceipt = r.Trigger(t, gatetest.Plan{}, next.Binding)
		}, "reputation_mismatch"},
		"the signature": {func(_ *testing.T, _ *world, next *policy.Request) {
			last := map[bool]string{true: "AA", false: "BA"}[strings.HasSuffix(next.Reputation, "BA")]
			next.Reputation = next.Reputation[:len(next.Reputation)-2] + last
		}, "signature_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newWorld(t, file("r allow autonomy.tierRank > 0"), gatetest.Autonomous)
			next := r.appraised(r.Reputation(t, r.Agent(t), 500, 90))
			for range 2 {
				_, err := r.engine().Decide(t.Context(), next)
				check.Must(t, err)
			}
			c.change(t, r, &next)
			_, err := r.engine().Decide(t.Context(), next)
			check.WantCode(t, err, c.code)
		})
	}
}

func TestWithoutAutonomyPolicy(t *testing.T) {
	k := gatetest.New(t, gatetest.Autonomous)
	r := newWorld(t, file("r allow autonomy.tierRank > 0"))
	_, err := r.decide(r.appraised(k.Reputation(t, k.Agent(t), 500, 90)))
	check.WantCode(t, err, "key_unknown")

	r = newWorld(t, file("r allow autonomy.tierRank > 0"), gatetest.Autonomous)
	token := r.Reputation(t, r.Agent(t), 500, 90)
	r.Strict.Autonomy = policy.AutonomyExpected{}
	_, err = r.decide(r.appraised(token))
	check.WantCode(t, err, "not_allowed")

	r = newWorld(t, file("r allow request.size < 10"), gatetest.Autonomous)
	for _, token := range []string{"", "no token", r.Reputation(t, r.Agent(t), 500, 90)} {
		d, err := r.decide(r.appraised(token))
		check.Must(t, err)
		check.WantEqual(t, d.ReputationHash, "")
	}
}

func BenchmarkDecideWithReputation(b *testing.B) {
	for name, when := range map[string]string{"with": "autonomy.tierRank > 0", "without": "request.size > 0"} {
		b.Run(name, func(b *testing.B) {
			r := newWorld(b, file("r allow "+when), gatetest.Autonomous)
			request := r.appraised(r.Reputation(b, r.Agent(b), 500, 90))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.engine().Decide(b.Context(), request); err != nil {
					b.Fatal(fmt.Errorf("%s: %w", name, err))
				}
			}
		})
	}
}

// TestNothingFollowsFromAMissingToken checks that no condition holds because a believed token is missing.
func TestNothingFollowsFromAMissingToken(t *testing.T) {
	for _, when := range []string{
		`!autonomy.disputed`, `autonomy.disputed == false`, `autonomy.disputed != true`, `autonomy.disputed in [false]`,
		`[autonomy.disputed] == [false]`, `!(autonomy.disputed in [true])`,
		`autonomy.disputed ? false : true`, `autonomy.disputed ? true : true`, `dyn(autonomy.disputed) != dyn("x")`,
		`type(autonomy.disputed) == bool`, `size([autonomy.disputed]) == 1`,
		`{"a": autonomy.disputed}["a"] == false`, `string(autonomy.disputed) != "true"`, `!autonomy.verified`,
		`!autonomy.degraded`, `!(autonomy.disputesPending > 0)`, `autonomy.disputesPending < 1`,
		`autonomy.verifiedAge < duration("1000h")`, `!(autonomy.verifiedAge > duration("1h"))`,
		`now - autonomy.verifiedAge < now + duration("1h")`, `!(autonomy.r < 1.0)`, `!(autonomy.q > 0.0)`,
		`!autonomy.known && !autonomy.disputed`, `!autonomy.disputed && !autonomy.known`,
		`autonomy.known || !autonomy.disputed`, `!autonomy.disputed || autonomy.known`,
		`autonomy.known ? true : !autonomy.disputed`,
	} {
		t.Run(when, func(t *testing.T) {
			r := newWorld(t, file("r allow "+when), gatetest.Autonomous)
			old := r.ReputationVerified(t, r.Agent(t), 20, 50, r.Verified())
			r.Clock.Advance(accrual.Lifetime + 3*time.Second)
			for token, code := range map[string]string{"": "reputation_missing", old: "expired"} {
				_, err := r.decide(r.appraised(token))
				check.WantCode(t, err, code)
			}
		})
	}
}
