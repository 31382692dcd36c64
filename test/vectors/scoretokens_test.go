package vectors_test

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/actionproof/mediator/reputation/autonomy"
)

func (d deployment) scoreClaims() string {
	cases := scoreCases()
	v := cases[slices.IndexFunc(cases, func(v scoreVector) bool { return v.Name == "whole: an agent at work" })]
	v.measure()
	c := autonomy.NewClaims(v.session, otherHash, autonomy.Appraise(v.session, v.Challenges, v.Baseline))
	c.Owner, c.Agent, c.Session, c.HeadHash, c.HeadNumber = "owner", "agent:worker-1", "ses_1", otherHash,
		c.N+c.OtherCalls+1
	return claimsOf(d, autonomy.Kind, c, 600)
}

func (d deployment) scoreTokens() artifactsFile {
	d, r := d.appraiser()
	f := artifactsFile{About: "Tokens of autonomy scores: see docs/vectors.md, Autonomy scores.", At: at, Skew: 2,
		Trust: d.trusting(r), Expected: map[string]expectedJSON{autonomy.Kind.Typ: r.expected(15)}}
	payload := d.scoreClaims()
	for _, row := range scoreTokenRows() {
		claims := make(map[string]any)
		mustDo(json.Unmarshal([]byte(payload), &claims))
		for path, value := range row.change {
			set(claims, strings.Split(path, "."), value)
		}
		changed := canonicalOf(claims)
		f.Vectors = append(f.Vectors,
			artifactVector{Name: row.name, Typ: autonomy.Kind.Typ, Token: d.signed(r.purpose, autonomy.Kind.Typ, changed, nil),
				Verdict: row.code})
	}
	return f
}

func set(at any, path []string, value any) {
	switch at := at.(type) {
	case map[string]any:
		switch {
		case len(path) > 1:
			set(at[path[0]], path[1:], value)
		case value == nil:
			delete(at, path[0])
		default:
			at[path[0]] = value
		}
	case []any:
		set(at[path[0][0]-'0'], path[1:], value)
	}
}

type scoreTokenRow struct {
	name, code string
	change     map[string]any
}

func scoreTokenRows() []scoreTokenRow {
	const bad = "artifact_malformed"
	rows := []scoreTokenRow{
		{"valid", "ok", nil}, {"without a baseline", "ok", map[string]any{"baselineHash": nil}},
		{"of other formulas, with another score", "ok",
			map[string]any{"scoringHash": strings.Repeat("0", 64), "score": 50.5, "interval.lower": 50, "interval.upper": 51}},
		{"of other formulas, with another band", "ok",
			map[string]any{"scoringHash": strings.Repeat("0", 64), "band": "middling"}},
		{"as many calls as receipts", "ok", map[string]any{"n": 3, "otherCalls": 2, "headNumber": 5}},
		{"more calls than receipts", bad, map[string]any{"n": 3, "otherCalls": 3, "headNumber": 5}},
		{"32 model hosts", "ok", map[string]any{"modelHosts": hosts(32)}},
		{"33 model hosts", bad, map[string]any{"modelHosts": hosts(33)}},
		{"a host of 127 bytes", "ok", map[string]any{"modelHosts": []string{strings.Repeat("h", 127)}}},
		{"a host of 128 bytes", bad, map[string]any{"modelHosts": []string{strings.Repeat("h", 128)}}},
		{"a list is left out", "artifact_malformed", map[string]any{"modelHosts": nil}},
		{"a signal is left out", "artifact_malformed", map[string]any{"signals.timing": nil}},
		{"an empty baselineHash", "artifact_malformed", map[string]any{"baselineHash": ""}},
		{"a part that was not measured, with points", bad, map[string]any{"signals.timing.parts.0.state": "not_measured"}},
		{"points within the tolerance", "ok",
			map[string]any{"signals.timing.parts.0.of": 0, "signals.timing.parts.0.points": 1e-7, "signals.timing.score": 1e-7,
				"signals.timing.parts.1.points": 0, "signals.timing.parts.2.points": 0, "scoringHash": strings.Repeat("0", 64)}},
	}
	for _, r := range []struct {
		path  string
		value any
	}{
		{"nonHumanIdentityProven", true}, {"probabilistic", false}, {"owner", ""}, {"agent", strings.Repeat("a", 257)},
		{"session_id", ""}, {"scoringVersion", ""}, {"keyCustody", ""}, {"band", ""},
		{"headNumber", 0}, {"headNumber", "7"}, {"headHash", "none"}, {"scoringHash", ""}, {"baselineHash", "none"},
		{"n", -1}, {"n", 1.5}, {"otherCalls", -1}, {"modelHosts", []string{""}},
		{"modelHosts", []string{"b", "a"}}, {"score", 101}, {"score", -1}, {"score", "50"}, {"score", 1}, {"seedWeighted", 1},
		{"band", "low"}, {"another", 1},
		{"interval.lower", -1}, {"interval.lower", 99}, {"interval.upper", 1}, {"interval.upper", 101}, {"interval.level", 2},
		{"interval.leave_out", []any{"1"}},
		{"coverage.calls_observed", 1_000_000}, {"coverage.calls_observed", -1},
		{"coverage.bytes_out_observed", 1_000_000_000}, {"coverage.share", 1.5}, {"coverage.share", -0.5},
		{"signals.recursion.parts.0.name", ""}, {"signals.recursion.parts.0.points", 11},
		{"signals.recursion.parts.0.points", -1}, {"signals.recursion.parts.0.n", -1},
		{"signals.recursion.parts.0.state", "seen"}, {"signals.recursion.state", "seen"}, {"signals.recursion.score", 1},
		{"signals.entropy.interaction_count", "1"},
	} {
		name := strings.Trim(string(compact(r.value)), `"`)
		rows = append(rows, scoreTokenRow{r.path + " " + name[:min(len(name), 12)], bad, map[string]any{r.path: r.value}})
	}
	return rows
}

func hosts(n int) (list []string) {
	for i := range n {
		list = append(list, string([]byte{'a' + byte(i/10), '0' + byte(i%10)})+".example:443")
	}
	return list
}
