package vectors_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/reputation/accrual"
)

type reputationVector struct {
	Name                string          `json:"name"`
	Log                 []accrual.Entry `json:"log,omitempty"`
	Reputation          json.RawMessage `json:"reputation,omitempty"`
	Token               string          `json:"token,omitempty"`
	Agent               string          `json:"agent,omitempty"`
	ScoringHash         string          `json:"scoringHash,omitempty"`
	At                  int64           `json:"at,omitempty"`
	RequireVerification bool            `json:"requireVerification,omitempty"`
	AllowDegraded       bool            `json:"allowDegraded,omitempty"`
	Verdict             string          `json:"verdict"`
}

type reputationsFile struct {
	About       string             `json:"about"`
	At          int64              `json:"at"`
	Skew        int64              `json:"skew"`
	Trust       trustJSON          `json:"trust"`
	Expected    expectedJSON       `json:"expected"`
	Owner       string             `json:"owner"`
	Agent       string             `json:"agent"`
	ScoringHash string             `json:"scoringHash"`
	Vectors     []reputationVector `json:"vectors,omitempty"`
}

func (f reputationsFile) verify(v reputationVector) string {
	agent, scoring, now := f.Agent, f.ScoringHash, f.At
	if v.Agent != "" {
		agent = v.Agent
	}
	if v.ScoringHash != "" {
		scoring = v.ScoringHash
	}
	if v.At != 0 {
		now = v.At
	}
	if v.Token == "" {
		a, err := accrual.Replay(accrual.Agent{Owner: f.Owner, Subject: agent}, v.Log, scoring)
		if err != nil {
			return codeOf(err)
		}
		if got := canonicalOf(a.Reputation()); got != canonicalOf(v.Reputation) {
			return "another reputation: " + got
		}
		return "ok"
	}
	verifier, err := f.Trust.verifier(now)
	if err != nil {
		return codeOf(err)
	}
	_, err = policy.OpenReputation(verifier, &policy.Strict{Autonomy: policy.AutonomyExpected{
		Expected: f.Expected.expected(), ScoringHash: scoring, RequireVerification: v.RequireVerification,
		AllowDegraded: v.AllowDegraded,
	}}, v.Token, agent)
	return codeOf(err)
}

func canonicalOf(v any) string { return string(must(strictjson.CanonicalOf(v))) }

// with gives the deployment one more role.
func (d deployment) with(purpose, issuer, audience, keyID string) (deployment, role) {
	d.roles = maps.Clone(d.roles)
	r := role{purpose, issuer, audience, newKey(keyID + ":v1")}
	d.roles[purpose] = r
	return d, r
}

func (d deployment) appraiser() (deployment, role) {
	return d.with(evidence.PurposeAppraiser, "mediator-appraiser", "posting-api", "appraiser-key")
}

// expected expects tokens of the role, of at most so many seconds.
func (r role) expected(maxAge int64) expectedJSON {
	keyID, _, _ := strings.Cut(r.key.kid, ":")
	return expectedJSON{Issuers: []string{r.issuer}, Audiences: []string{r.audience}, KeyIDs: []string{keyID},
		MaxAge: maxAge, Custody: []string{evidence.CustodyExternalMediator, evidence.CustodyHardwareBacked},
		RequireNonExportable: true}
}

func (d deployment) trusting(r role) trustJSON {
	t := d.trust()
	t.Certificates = append(t.Certificates, d.certificate(r, nil))
	return t
}

var formulas = evidence.HashBytes([]byte("formulas"))

type entries []accrual.Entry

func (e entries) session(event string, score float64, edits ...func(*accrual.Session)) entries {
	s := accrual.Session{ID: fmt.Sprint("ses_", len(e)), EventID: event, Score: score, Coverage: 0.75,
		ScoringHash: formulas, Interactions: 3, Hosts: []string{"api.openai.com:443"}}
	for _, edit := range edits {
		edit(&s)
	}
	return e.add(accrual.Entry{Session: &s})
}

func (e entries) sessions(n int, score float64) entries {
	for range n {
		e = e.session(fmt.Sprint("evt_", len(e)), score)
	}
	return e
}

func (e entries) add(entry accrual.Entry) entries {
	entry.At = at - 86_400 + int64(60*len(e))
	return append(e, entry)
}

func (e entries) dispute(id, outcome string) entries {
	return e.add(accrual.Entry{Dispute: &accrual.Dispute{ID: id, Outcome: outcome}})
}

func (e entries) kept(id string) entries {
	return e.add(accrual.Entry{Dispute: &accrual.Dispute{ID: id, Outcome: accrual.TargetWins, Bonus: true}})
}

func (e entries) raised(id, outcome string, bonus bool) entries {
	return e.add(accrual.Entry{Raised: &accrual.Raised{ID: id, Outcome: outcome, Bonus: bonus}})
}

func (e entries) notes() entries {
	const other = "0000000000000000000000000000000000000000000:agent:worker-2"
	for _, note := range []accrual.Entry{
		{Signal: &accrual.Signal{ID: "s", Trace: true, Schema: true}}, {Cited: &accrual.Cited{By: other, SignalID: "s"}},
		{Violation: &accrual.Violation{Rule: "identical"}},
		{Dispute: &accrual.Dispute{ID: "d", Outcome: accrual.TargetWins, Other: other, About: "s"}},
	} {
		e = e.add(note)
	}
	return e
}

func (d deployment) reputationsVectors() reputationsFile {
	d, r := d.appraiser()
	f := reputationsFile{
		About: "Reputations: see docs/vectors.md, Reputations.", At: at, Skew: 2, Trust: d.trusting(r),
		Expected: r.expected(300), Owner: interaction.Owner(d.roles[evidence.PurposeSignerCertificate].key.public()),
		Agent: "agent:worker-1", ScoringHash: formulas,
	}
	f.Vectors = append(f.logs(), d.reputationTokens(f)...)
	return f
}

func (f reputationsFile) logs() (out []reputationVector) {
	none := func(s *accrual.Session) { s.Interactions, s.Hosts = 0, []string{} }
	late := func(s *accrual.Session) { s.ID = "s" }
	others := func(s *accrual.Session) { s.ScoringHash = otherHash }
	ten, steady := slices.Clip(entries{}.sessions(10, 40)), slices.Clip(entries{}.sessions(20, 60))
	for _, row := range []struct {
		name string
		log  entries
	}{
		{"nothing", entries{}}, {"one session", entries{}.sessions(1, 61.5)},
		{"two sessions", entries{}.sessions(1, 40).sessions(1, 45)},
		{"three sessions, one of them with a long fraction",
			entries{}.sessions(1, 49.123456).sessions(1, 50).sessions(1, 51.7)},
		{"more sessions than the mean is of", entries{}.sessions(3, 0).sessions(20, 80)},
		{"it rises", entries{}.sessions(15, 50).sessions(5, 52.000001)},
		{"it rises by 2, which is stable", entries{}.sessions(15, 50).sessions(5, 52)},
		{"it falls", entries{}.sessions(6, 50).sessions(5, 47.9)},
		{"five sessions have no trend", entries{}.sessions(1, 0).sessions(4, 90)},
		{"ten interactions", entries{}.sessions(10, 30)}, {"nine interactions", entries{}.sessions(9, 90)},
		{"a session without an interaction", entries{}.sessions(9, 90).session("evt_9", 90, none)},
		{"two sessions of one event", entries{}.session("e", 90).session("e", 40).sessions(1, 60)},
		{"an event whose second session has the interaction", entries{}.session("e", 40, none).session("e", 90)},
		{"late receipts", entries{}.session("e", 40, late).sessions(1, 60).session("e", 80, late)},
		{"late receipts that say nothing new", entries{}.session("e", 40, late).session("e", 40, late)},
		{"scores by other formulas", entries{}.session("e", 90, others).sessions(2, 50)},
		{"an open dispute", ten.dispute("d", "")},
		{"a dispute that was won", ten.dispute("d", "").dispute("d", "target_wins")},
		{"a dispute without a winner", ten.dispute("d", "inconclusive")},
		{"a lost dispute", ten.dispute("d", "").dispute("d", "challenger_wins")},
		{"a lost dispute, and sessions since", ten.dispute("d", "challenger_wins").sessions(3, 90)},
		{"a lost dispute, and late receipts of what was before",
			entries{}.session("e", 40, late).dispute("d", "challenger_wins").session("e", 90, late).session("e", 95)},
		{"the mark of a lost dispute ends", entries{}.sessions(2, 40).dispute("d", "challenger_wins").sessions(20, 90)},
		{"what only a rating rests on", entries{}.sessions(2, 40).notes().sessions(1, 50)},
		{"a dispute that was won, with points", steady.kept("d")},
		{"a raised dispute that was won", steady.raised("d", "challenger_wins", true)},
		{"a raised dispute that was won without points", steady.raised("d", "challenger_wins", false)},
		{"a raised dispute that was lost",
			entries{}.sessions(20, 60.123456).sessions(1, 61).raised("d", "target_wins", false)},
		{"a raised dispute without a winner", steady.raised("d", "inconclusive", false)},
		{"more points than can be gained",
			steady.raised("a", "challenger_wins", true).raised("b", "challenger_wins", true).raised("c",
				"challenger_wins", true)},
		{"points above 100", entries{}.sessions(20, 99.5).raised("a", "challenger_wins", true)},
		{"points below 0", entries{}.sessions(20, 3).raised("a", "target_wins", false)},
		{"points that still count", steady.raised("a", "target_wins", false).sessions(19, 60)},
		{"points that count no more", steady.raised("a", "target_wins", false).sessions(20, 60)},
		{"points that raise no tier", entries{}.sessions(100, 49).raised("a", "challenger_wins", true)},
		{"points that cost the tier", entries{}.sessions(100, 52).raised("a", "target_wins", false)},
		{"a lost dispute takes the points that were gained",
			steady.raised("a", "challenger_wins", true).raised("b", "target_wins", false).dispute("d",
				"challenger_wins").sessions(2, 50)},
		{"points without a score", entries{}.raised("a", "challenger_wins", true)},
		{"a raised dispute again",
			entries{}.sessions(3, 60).raised("a", "challenger_wins", true).raised("a", "challenger_wins", true)},
	} {
		a := must(accrual.Replay(accrual.Agent{Owner: f.Owner, Subject: f.Agent}, row.log, formulas))
		out = append(out, reputationVector{Name: "log: " + row.name, Log: row.log,
			Reputation: json.RawMessage(canonicalOf(a.Reputation())), Verdict: "ok"})
	}
	return out
}

func (d deployment) reputationTokens(f reputationsFile) []reputationVector {
	const typ = "reputation+jwt"
	payload := func(subject string, log entries, edit func(*accrual.Reputation)) string {
		r := must(accrual.Replay(accrual.Agent{Owner: f.Owner, Subject: subject}, log, formulas)).Reputation()
		if edit != nil {
			edit(&r)
		}
		return claimsOf(d, accrual.Kind, accrual.ClaimsOf(r, nil), 600)
	}
	whole := payload(f.Agent, entries{}.sessions(20, 90), nil)
	signed := func(payload string, c map[string]any) string {
		return d.signed(evidence.PurposeAppraiser, typ, payload, changes{typ: c})
	}
	out := []reputationVector{
		{Name: "valid", Token: signed(whole, nil), Verdict: "ok"},
		{Name: "of an agent that nothing is known of", Token: signed(payload(f.Agent, nil, nil), nil), Verdict: "ok"},
		{Name: "another agent's", Token: signed(payload("agent:worker-2", entries{}.sessions(2, 90), nil), nil),
			Verdict: "reputation_mismatch"},
		{Name: "another agent posts", Token: signed(whole, nil), Agent: "agent:worker-2", Verdict: "reputation_mismatch"},
		{Name: "another owner's", Token: signed(whole, map[string]any{"owner": strings.Repeat("x", 43),
			"agent_id": strings.Repeat("x", 43) + ":" + f.Agent}), Verdict: "reputation_mismatch"},
		{Name: "by other formulas", Token: signed(whole, nil), ScoringHash: otherHash, Verdict: "pin_mismatch"},
		{Name: "too old", Token: signed(whole, nil), At: at + 303, Verdict: "expired"},
		{Name: "just not too old", Token: signed(whole, nil), At: at + 302, Verdict: "ok"},
		{Name: "expired", Token: signed(whole, map[string]any{"exp": at + 10}), At: at + 12, Verdict: "expired"},
		{Name: "for too long", Token: signed(whole, map[string]any{"exp": at + 601}), Verdict: "artifact_malformed"},
		{Name: "of another issuer", Token: signed(whole, map[string]any{"iss": "other"}), Verdict: "key_purpose"},
		{Name: "for another audience", Token: signed(whole, map[string]any{"aud": "other"}), Verdict: "not_allowed"},
		{Name: "by the key of another role", Token: d.signed(evidence.PurposePolicyDecision, typ, whole, nil),
			Verdict: "key_purpose"},
		{Name: "another artifact",
			Token:   d.signed(evidence.PurposeRequestProof, evidence.RequestProofKind().Typ, d.proofClaims(), nil),
			Verdict: "artifact_malformed"},
	}
	for _, t := range []struct {
		tier         string
		score        float64
		interactions int64
		lost         int64
	}{
		{"new", 29.999999, 5000, 0}, {"building", 30, 10, 0}, {"building", 49.999999, 99_999, 0}, {"established", 50, 100, 0},
		{"established", 100, 499, 0},
		{"trusted", 70, 500, 0}, {"trusted", 84.999999, 1000, 0}, {"verified", 85, 1000, 0}, {"established", 85, 1000, 1},
	} {
		p := payload(f.Agent, entries{}.sessions(20, t.score), func(r *accrual.Reputation) {
			r.TotalInteractions, r.TotalSessions, r.Log.Entries = t.interactions, t.interactions+20, t.interactions+21
			r.ChallengesReceived, r.ChallengesLost, r.Tier = t.lost, t.lost, t.tier
		})
		out = append(out,
			reputationVector{Name: fmt.Sprintf("tier: %s with %v, %d and %d lost", t.tier, t.score, t.interactions, t.lost),
				Token: signed(p, nil), Verdict: "ok"})
		for _, other := range []string{"new", "building", "established", "trusted", "verified"} {
			if other != t.tier {
				out = append(out,
					reputationVector{
						Name: fmt.Sprintf("tier: %s in place of %s with %v, %d and %d lost", other, t.tier, t.score, t.interactions,
							t.lost), Token: signed(p, map[string]any{"tier": other}), Verdict: "artifact_malformed"})
			}
		}
	}
	long := []map[string]any{}
	for i := range 21 {
		long = append(long, map[string]any{"coverage": 0.75, "score": 90, "session_id": fmt.Sprint(i), "timestamp": 1})
	}
	const malformed, unverified = "artifact_malformed", "reputation_insufficient"
	for _, row := range []struct {
		claim string
		value any
	}{
		{"probabilistic", false}, {"nonHumanIdentityProven", true},
		{"current_score", 91}, {"current_score", "90"},
		{"lower", 91}, {"coverage", 0.8},
		{"score_trend", "rising"}, {"provisional", true},
		{"disputed", true}, {"disputes_pending", 1},
		{"disputes_pending", 0}, {"dispute_points", 1},
		{"dispute_points", -5},
		{"disputes_won", 1}, {"disputes_lost", -1},
		{"total_interactions", 21}, {"total_interactions", -1},
		{"total_sessions", 19},
		{"total_sessions", 21}, {"flagged_interactions", 1},
		{"challenges_won", 1}, {"first_seen", 0},
		{"agent_id", f.Agent}, {"scoringHash", "x"},
		{"score_history", long}, {"score_history", []any{}},
		{"log", map[string]any{"entries": 19, "head": otherHash}},
		{"log", map[string]any{"entries": 20, "head": "x"}},
		{"tier", nil}, {"surprise", 1},
	} {
		out = append(out, reputationVector{Name: fmt.Sprintf("claims: %s is %.60v", row.claim, row.value),
			Token: signed(whole, map[string]any{row.claim: row.value}), Verdict: malformed})
	}
	passed := func(name, value any) map[string]any {
		v := map[string]any{"at": at - 60, "degraded": false, "expires": at + 86340, "mode": "observed", "result": otherHash}
		if text, ok := name.(string); ok {
			v[text] = value
		}
		return map[string]any{"verification": v}
	}
	for _, row := range []struct {
		name              string
		claims            map[string]any
		require, degraded bool
		code              string
	}{
		{"valid", passed(nil, nil), true, false, "ok"}, {"not required", nil, false, false, "ok"},
		{"none", nil, true, true, unverified},
		{"degraded, and not required", passed("degraded", true), false, false, "ok"},
		{"degraded", passed("degraded", true), true, false, unverified},
		{"degraded, and allowed", passed("degraded", true), true, true, "ok"},
		{"in the mode seed", passed("mode", "seed"), true, true, unverified},
		{"in the mode seed, and not required", passed("mode", "seed"), false, false, "ok"},
		{"over at once", passed("expires", at), true, true, unverified},
		{"to the end", passed("expires", at+1), true, true, "ok"},
		{"for longer", passed("expires", at+86341), false, false, malformed},
		{"that ended before it was", passed("expires", at-60), false, false, malformed},
		{"without time", passed("at", 0), false, false, malformed},
		{"in another mode", passed("mode", "both"), false, false, malformed},
		{"by another result", passed("result", "x"), false, false, malformed},
		{"of nothing", map[string]any{"verification": map[string]any{}}, false, false, "artifact_malformed"},
		{"with more", passed("more", 1), false, false, malformed},
	} {
		out = append(out, reputationVector{Name: "verification: " + row.name, Token: signed(whole, row.claims),
			RequireVerification: row.require, AllowDegraded: row.degraded, Verdict: row.code})
	}
	rated := func(r, q any, tier string) map[string]any {
		return map[string]any{"rating": map[string]any{"r": r, "q": q, "r_tier": tier}}
	}
	for _, row := range []struct {
		name   string
		claims map[string]any
		code   string
	}{
		{"valid", rated(72.5, 0.25, "A"), "ok"}, {"the least", rated(0, 0, "D"), "ok"},
		{"the most", rated(100, 3, "S"), "ok"},
		{"r above 100", rated(100.5, 0, "S"), malformed}, {"r below 0", rated(-1, 0, "D"), malformed},
		{"q above 3", rated(50, 3.5, "C"), malformed},
		{"q below 0", rated(50, -0.5, "C"), malformed}, {"r that is not rounded", rated(0.12345678, 0, "D"), malformed},
		{"another tier", rated(50, 0, "E"), malformed},
		{"a higher tier than that of r", rated(84.999999, 0, "S"), malformed}, {"a lower one", rated(85, 0, "A"), malformed},
		{"the last of a tier", rated(84.999999, 0, "A"), "ok"},
		{"no tier", rated(50, 0, ""), malformed},
		{"nothing", map[string]any{"rating": map[string]any{}}, "artifact_malformed"},
		{"a number", map[string]any{"rating": 72.5}, malformed},
	} {
		out = append(out, reputationVector{Name: "rating: " + row.name, Token: signed(whole, row.claims), Verdict: row.code})
	}
	for _, row := range []struct{ number, code string }{{"-0", "artifact_malformed"}, {"90.0", "artifact_malformed"},
		{"9e1", "artifact_malformed"}, {"90.0000001", "artifact_malformed"}} {
		spelt, k := strings.Replace(whole, `"lower":90,`, `"lower":`+row.number+",", 1),
			d.roles[evidence.PurposeAppraiser].key
		out = append(out, reputationVector{Name: "claims: lower is spelt " + row.number, Verdict: row.code,
			Token: token{`{"alg":"EdDSA","kid":"` + k.kid + `","typ":"` + typ + `"}`, spelt, k.signer()}.String()})
	}
	return out
}
