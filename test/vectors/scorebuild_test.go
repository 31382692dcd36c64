package vectors_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/strategy"
)

const (
	modelHost = "api.models.example:443"
	ownHost   = "model.agent.example:443"
	midnight  = 20833 * 86_400_000
	minute    = 60_000
)

type receipt = interaction.Receipt

var seen, said, unknown = interaction.Observed, interaction.Declared, interaction.NotMeasured

type edit = func(call int, r *receipt)

// group names vectors that are about one part of a score.
type group struct{ name, part, state string }

var (
	inputs         = group{"input", "domains", isObserved}
	coverage       = group{"coverage", "domains", isObserved}
	regression     = group{"regression", "regression", isDeclared}
	speed          = group{"speed", "speed", isDeclared}
	regularity     = group{"regularity", "regularity", isObserved}
	chain          = group{"chain", "chain", isObserved}
	selfReferences = group{"self-references", "self_references", isObserved}
	depth          = group{"depth", "depth", isObserved}
	domains        = group{"domains", "domains", isObserved}
	agreement      = group{"agreement", "agreement", isObserved}
	superhuman     = group{"superhuman", "superhuman", isObserved}
	texts          = group{name: "text"}
	endurance      = group{"endurance", "endurance", isObserved}
	fatigue        = group{"fatigue", "fatigue", isObserved}
	commitments    = group{"challenge", "commitments", isDeclared}
	strategies     = group{"strategy", "commitments", isDeclared}
	whole          = group{name: "whole"}
	interval       = group{name: "interval"}
)

type scored struct {
	group
	v  scoreVector
	at int64
}

func (g group) when(name string) *scored {
	return &scored{g, scoreVector{Name: g.name + ": " + name, ModelHosts: []string{modelHost},
		Receipts: []json.RawMessage{}}, midnight}
}

func (s *scored) add(r receipt) {
	if r.Outcome == "" {
		r.Outcome = interaction.OutcomeCompleted
	}
	if r.Timing.RequestReceived == 0 {
		r.Timing.RequestReceived = s.at
	}
	s.v.Receipts = append(s.v.Receipts, bare(&r))
	s.at += 10_000
}

func (s *scored) calls(n int, edits ...edit) *scored {
	for i := range n {
		r := &receipt{Model: &interaction.ModelCall{Host: modelHost, Model: "model-1"}}
		r.Timing = interaction.Timing{RequestReceived: s.at, LLMEnd: s.at + 1000}
		for _, edit := range edits {
			edit(i, r)
		}
		s.add(*r)
	}
	return s
}

func (s *scored) other(receipts ...*receipt) *scored {
	for _, r := range receipts {
		s.add(*r)
	}
	return s
}

func (s *scored) expect(part string, n int64, value, points float64, state string) *scored {
	if s.v.expected == nil {
		s.v.expected = make(map[string]wantedPart)
	}
	s.v.expected[part] = wantedPart{n, value, points, state}
	return s
}

func (s *scored) gives(n int64, value, points float64) *scored {
	return s.expect(s.part, n, value, points, s.state)
}

func (s *scored) nothing(n int64) *scored { return s.unmeasured(s.part, n) }

func (s *scored) unmeasured(part string, n int64) *scored {
	return s.expect(part, n, 0, 0, interaction.StateNotMeasured)
}

func (s *scored) with(b *autonomy.Baseline, challenges ...autonomy.Challenge) *scored {
	s.v.Baseline, s.v.Challenges = b, challenges
	return s
}

func relayed(hosts ...string) *receipt {
	r := &receipt{Post: &interaction.PostMade{Status: 201}, RelayedCount: int64(len(hosts))}
	for _, h := range hosts {
		r.Relayed = append(r.Relayed, interaction.RelayedCall{Host: h, Tool: "t"})
	}
	return r
}

func figures(r *receipt) *interaction.ModelFigures { return &r.Model.Figures }

func took(tokens, duration func(i int) int64) edit {
	return func(i int, r *receipt) {
		figures(r).OutputTokens, figures(r).Duration = said(tokens(i)), seen(duration(i))
	}
}

func times(n int64) func(int) int64 { return func(i int) int64 { return int64(i+1) * n } }

func always(n int64) func(int) int64 { return func(int) int64 { return n } }

func of(numbers ...int64) func(int) int64 {
	return func(i int) int64 { return numbers[i%len(numbers)] }
}

func gaps(gap func(i int) int64) edit {
	return func(i int, r *receipt) {
		if i > 0 {
			figures(r).Turnaround = seen(gap(i - 1))
		}
	}
}

func tools(name, arguments func(i int) string) edit {
	return func(i int, r *receipt) {
		r.Model.ToolCalls = []interaction.ToolCall{{ID: tagOf("call", i), Tool: name(i), Arguments: arguments(i)}}
		figures(r).ToolCallsMade = seen(1)
		if i > 0 {
			r.Model.ReturnedCalls = []string{tagOf("call", i-1)}
		}
	}
}

func named(name string) func(int) string { return func(int) string { return name } }

func numbered(what string) func(int) string {
	return func(i int) string { return fmt.Sprint(what, i+1) }
}

func tags(what string) func(int) string { return func(i int) string { return tagOf(what, i) } }

func one(i int, edit func(r *receipt)) edit {
	return func(j int, r *receipt) {
		if i == j {
			edit(r)
		}
	}
}

func to(host, model string) func(r *receipt) {
	return func(r *receipt) { r.Model.Host, r.Model.Model = host, model }
}

func ended(outcome string) func(r *receipt) { return func(r *receipt) { r.Outcome = outcome } }

func sampled(bytes, entropy, compression int64) func(r *receipt) {
	return func(r *receipt) {
		f := figures(r)
		f.SampleBytes, f.WordEntropy, f.Compression = seen(bytes), seen(entropy), seen(compression)
	}
}

func usually(models ...autonomy.ModelBaseline) *autonomy.Baseline {
	return &autonomy.Baseline{Owner: "owner", Version: autonomy.Version(), Sessions: 12, Models: models}
}

func speedOf(model string, n int64, median, spread float64) autonomy.ModelBaseline {
	return autonomy.ModelBaseline{Host: modelHost, Model: model,
		Speed: &autonomy.SpeedBaseline{N: n, Distribution: autonomy.Distribution{Median: median, Spread: spread}}}
}

func textOf(model string, class, n int64, entropy, compression autonomy.Distribution) autonomy.ModelBaseline {
	return autonomy.ModelBaseline{Host: modelHost, Model: model,
		Texts: []autonomy.TextBaseline{{Class: class, N: n, Entropy: entropy, Compression: compression}}}
}

func plan() strategy.Strategy {
	return strategy.Strategy{Tools: []string{"fetch", "search"}, Hosts: []string{modelHost}, Model: "model-1",
		Calls: strategy.Calls{Min: 1, Max: 8}}
}

var planSalt = base64.RawURLEncoding.EncodeToString([]byte("sixteen bytes---"))

func challengeOf(nonce string, s strategy.Strategy) autonomy.Challenge {
	return autonomy.Challenge{
		Nonce: nonce, Issued: midnight - 8000, Committed: midnight - 5000,
		Commitment: must(strategy.Commitment(nonce, planSalt, s)), Salt: planSalt, Strategy: &s,
	}
}

func naming(c autonomy.Challenge, shown int) edit {
	return func(i int, r *receipt) { r.Challenge = refTo(c, i >= shown) }
}

func refTo(c autonomy.Challenge, revealed bool) *interaction.ChallengeRef {
	return &interaction.ChallengeRef{ChallengeNonce: c.Nonce, CommitmentHash: c.Commitment, CommitmentRevealed: revealed}
}

func strategyVectors() (out []strategyVector) {
	whole := string(compact(plan()))
	short, long := base64.RawURLEncoding.EncodeToString(make([]byte, 15)),
		base64.RawURLEncoding.EncodeToString(make([]byte, 65))
	for _, v := range []strategyVector{
		{Name: "whole", Strategy: whole},
		{Name: "white space, and other order", Strategy: ` {"tools":[ ],"model":"m" ,"hosts":[],"calls":{"min":1,"max":1}}`},
		{Name: "a name with an escape",
			Strategy: `{"calls":{"max":1000000,"min":1},"hosts":[],"model":"\u00e9\n","tools":["a","b"]}`},
		{Name: "no tools", Strategy: `{"calls":{"max":1,"min":1},"hosts":[],"model":"m"}`},
		{Name: "null for tools", Strategy: `{"calls":{"max":1,"min":1},"hosts":[],"model":"m","tools":null}`},
		{Name: "another member", Strategy: `{"calls":{"max":1,"min":1},"hosts":[],"model":"m","tools":[],"x":1}`},
		{Name: "a member twice", Strategy: `{"calls":{"max":1,"min":1},"hosts":[],"model":"m","model":"m","tools":[]}`},
		{Name: "tools in another order", Strategy: `{"calls":{"max":1,"min":1},"hosts":[],"model":"m","tools":["b","a"]}`},
		{Name: "a tool twice", Strategy: `{"calls":{"max":1,"min":1},"hosts":[],"model":"m","tools":["a","a"]}`},
		{Name: "an empty name", Strategy: `{"calls":{"max":1,"min":1},"hosts":[""],"model":"m","tools":[]}`},
		{Name: "no model", Strategy: `{"calls":{"max":1,"min":1},"hosts":[],"model":"","tools":[]}`},
		{Name: "no calls", Strategy: `{"calls":{"max":1,"min":0},"hosts":[],"model":"m","tools":[]}`},
		{Name: "fewer calls than more", Strategy: `{"calls":{"max":1,"min":2},"hosts":[],"model":"m","tools":[]}`},
		{Name: "too many calls", Strategy: `{"calls":{"max":1000001,"min":1},"hosts":[],"model":"m","tools":[]}`},
		{Name: "half a call", Strategy: `{"calls":{"max":1.5,"min":1},"hosts":[],"model":"m","tools":[]}`},
		{Name: "a short salt", Strategy: whole, Salt: short},
		{Name: "a long salt", Strategy: whole, Salt: long},
		{Name: "a salt with padding", Strategy: whole, Salt: planSalt + "=="},
		{Name: "a list", Strategy: `[]`},
	} {
		v.Nonce = evidence.HashBytes([]byte("nonce"))
		if v.Salt == "" {
			v.Salt = planSalt
		}
		v.Commitment, v.Verdict = v.judge()
		out = append(out, v)
	}
	return out
}

func baselineVectors() (out []baselineVector) {
	speed := func(model string, median, mad float64) autonomy.ModelSample {
		return autonomy.ModelSample{Host: modelHost, Model: model, Speed: &autonomy.SpeedSample{Median: median, MAD: mad}}
	}
	text := func(model string, texts ...autonomy.TextSample) autonomy.ModelSample {
		return autonomy.ModelSample{Host: modelHost, Model: model, Texts: texts}
	}
	add := func(name string, samples ...autonomy.Sample) {
		b := autonomy.NewBaseline("owner", samples)
		out = append(out, baselineVector{name, samples, b, must(b.Hash())})
	}
	sample := func(models ...autonomy.ModelSample) autonomy.Sample { return autonomy.Sample{Models: models} }
	add("no samples")
	add("one sample", sample(speed("a", 50, 4)))
	add("an odd number of samples", sample(speed("a", 50, 4)), sample(speed("a", 60, 1)), sample(speed("a", 52.5, 2)))
	add("an even number of samples", sample(speed("a", 50, 4)), sample(speed("a", 60, 1)), sample(speed("a", 52.5, 2)),
		sample(speed("a", 40, 3)))
	add("models in order, and a sample without a speed", sample(text("b"), speed("a", 50, 4)), sample(speed("b", 10, 0)))
	add("classes of texts", sample(text("a", autonomy.TextSample{Class: 0, Entropy: 7000, Compression: 400},
		autonomy.TextSample{Class: 3, Entropy: 9000, Compression: 350})),
		sample(text("a", autonomy.TextSample{Class: 0, Entropy: 7300, Compression: 410})),
		sample(text("a", autonomy.TextSample{Class: 0, Entropy: 7100, Compression: 440})))
	return out
}
