package vectors_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/strategy"
	"github.com/actionproof/mediator/test/check"
)

// independently computes scores with the program in js, which is written from docs/autonomy.md and formulas.json alone.
func independently(t *testing.T, file string) []json.RawMessage {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not installed: run make setup")
	}
	// so that go test does not cache the result when they change
	if err := filepath.WalkDir("js", func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			_, err = os.Stat(path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "js/scores.mjs", "../../reputation/autonomy/formulas.json", file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	var lines []json.RawMessage
	for line := range strings.Lines(string(out)) {
		lines = append(lines, json.RawMessage(line))
	}
	return lines
}

func TestIndependentScores(t *testing.T) {
	f := read[scoresFile]("scores.json")
	names, want := []string{"formulas"}, []any{map[string]any{"scoringVersion": f.Version, "scoringHash": f.ScoringHash}}
	for _, s := range f.Strategies {
		result := map[string]any{"verdict": s.Verdict}
		if s.Commitment != "" {
			result["commitment"] = s.Commitment
		}
		names, want = append(names, "strategy: "+s.Name), append(want, result)
	}
	for _, b := range f.Baselines {
		names, want = append(names, "baseline: "+b.Name),
			append(want, map[string]any{"baseline": b.Baseline, "baselineHash": b.Hash})
	}
	for _, v := range f.Vectors {
		names, want = append(names, v.Name), append(want, map[string]any{"score": v.Score, "sample": v.Sample})
	}
	got := independently(t, "scores.json")
	if len(got) != len(want) {
		t.Fatalf("it computes %d results of %d", len(got), len(want))
	}
	for i, name := range names {
		t.Run(name, func(t *testing.T) { like(t, "js", got[i], want[i]) })
	}
}

type syntheticSession struct {
	Kind     string
	Receipts []interaction.Receipt
}

func syntheticSessions(t *testing.T) (sessions []syntheticSession) {
	t.Helper()
	cmd := exec.Command("go", "run", "./autonomy/judge", "-print", "-n", "1", "-seed", "18")
	cmd.Dir = "../../tools"
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &sessions)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	return sessions
}

func hostsOf(receipts []interaction.Receipt) []string {
	hosts := make(map[string]bool)
	for _, r := range receipts {
		if r.Model != nil {
			hosts[r.Model.Host] = true
		}
	}
	return slices.Sorted(maps.Keys(hosts))
}

func TestIndependentScoresOfSessions(t *testing.T) {
	sessions := syntheticSessions(t)
	f := scoresFile{Strategies: []strategyVector{}}
	for seed := range uint64(40) {
		f.Vectors = append(f.Vectors, randomSession(seed))
	}
	var samples []autonomy.Sample
	for _, s := range sessions {
		v := scoreVector{Name: s.Kind, ModelHosts: hostsOf(s.Receipts)}
		for i := range s.Receipts {
			v.Receipts = append(v.Receipts, bare(&s.Receipts[i]))
		}
		f.Vectors = append(f.Vectors, v)
	}
	for i := range f.Vectors {
		f.Vectors[i].measure()
		for range 10 {
			samples = append(samples, f.Vectors[i].session.Sample())
		}
	}
	baseline := autonomy.NewBaseline("owner", samples)
	f.Baselines = []baselineVector{{Name: "of all", Samples: samples, Baseline: baseline}}
	for i := range f.Vectors {
		f.Vectors[i].Baseline = &baseline
	}
	file := filepath.Join(t.TempDir(), "sessions.json")
	check.Must(t, os.WriteFile(file, marshal(f), 0o600))
	got := independently(t, file)
	if len(got) != len(f.Vectors)+2 {
		t.Fatalf("it computes %d results for %d sessions", len(got), len(f.Vectors))
	}
	like(t, "baseline", field(got[1], "baseline"), baseline)
	for i, v := range f.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			like(t, "score", field(got[i+2], "score"), autonomy.Appraise(v.session, v.Challenges, v.Baseline))
			like(t, "sample", field(got[i+2], "sample"), v.session.Sample())
		})
	}
}

func field(object json.RawMessage, name string) json.RawMessage {
	var members map[string]json.RawMessage
	mustDo(json.Unmarshal(object, &members))
	return members[name]
}

func randomSession(seed uint64) scoreVector {
	r := rand.New(rand.NewPCG(seed, 18))
	const host = "api.models.example:443"
	v := scoreVector{Name: fmt.Sprint("random ", seed), ModelHosts: []string{host, "b.example:443"}}
	hosts := []string{host, host, host, host, host, host, "b.example:443", "own.example:443"}
	tags := func(what string, n, of int) (list []string) {
		for range r.IntN(n) {
			list = append(list, tagOf(what, r.IntN(of)))
		}
		return list
	}
	figure := func(most int64) interaction.Figure {
		if r.IntN(6) == 0 {
			return interaction.NotMeasured
		}
		return interaction.Observed(r.Int64N(most))
	}
	tokens := func() interaction.Figure {
		return []interaction.Figure{interaction.NotMeasured, interaction.Estimated(r.Int64N(300)),
			interaction.Declared(r.Int64N(300))}[r.IntN(3)]
	}
	plan := strategy.Strategy{Tools: []string{"t0", "t1", "t2"}, Hosts: []string{host, "m0.example:443"}, Model: "m0",
		Calls: strategy.Calls{Min: 1, Max: 20}}
	commitments := make([]string, 3)
	at := int64(1_800_000_000_000)
	for n := range commitments {
		c := autonomy.Challenge{Nonce: fmt.Sprint("n", n), Issued: at + r.Int64N(100_000),
			Salt: b64.EncodeToString([]byte("sixteen bytes, n"))}
		c.Committed, c.Strategy = c.Issued+r.Int64N(20_000), &plan
		commitments[n] = must(strategy.Commitment(c.Nonce, c.Salt, plan))
		c.Commitment = commitments[n]
		for range 3 {
			c.Probes = append(c.Probes, [2]string{fmt.Sprint("p", r.IntN(12)), fmt.Sprint("p", r.IntN(12))})
		}
		v.Challenges = append(v.Challenges, c)
	}
	names, step := 1+r.IntN(4), int64(1)<<(10+r.IntN(14))
	if seed%8 == 0 {
		names = 90 // more models than are told apart
	}
	for range 5 + r.IntN(200) {
		at += r.Int64N(step)
		var c interaction.Receipt
		c.Timing.RequestReceived, c.Outcome = at,
			[]string{"completed", "completed", "completed", "completed", "unfinished", "failed", "cut"}[r.IntN(7)]
		if r.IntN(4) == 0 {
			c.Relayed, c.RelayedCount = []interaction.RelayedCall{
				{Host: fmt.Sprintf("m%d.example:443", r.IntN(4)), Tool: fmt.Sprint("t", r.IntN(3))}}, 1+r.Int64N(2)
		}
		if n := r.IntN(9); n < 3 {
			c.Challenge = &interaction.ChallengeRef{ChallengeNonce: fmt.Sprint("n", n)}
			if r.IntN(5) > 0 {
				c.Challenge.CommitmentHash, c.Challenge.CommitmentRevealed = commitments[n], r.IntN(3) == 0
			}
		}
		c.Session = interaction.SessionTotals{Calls: 10, CallsObserved: r.Int64N(10), BytesOut: 100,
			BytesOutObserved: r.Int64N(100)}
		if r.IntN(12) > 0 {
			m := &interaction.ModelCall{Host: hosts[r.IntN(len(hosts)-int(seed%2))], Model: fmt.Sprint("m", r.IntN(names)),
				ReturnedCalls: tags("call", 3, 30)}
			for range r.IntN(3) {
				call := interaction.ToolCall{ID: tagOf("call", r.IntN(30)), Tool: fmt.Sprint("t", r.IntN(4)),
					Arguments: tagOf("arguments", r.IntN(20))}
				for _, part := range []*string{&call.ID, &call.Tool, &call.Arguments} {
					if r.IntN(10) == 0 {
						*part = ""
					}
				}
				m.ToolCalls = append(m.ToolCalls, call)
			}
			if r.IntN(8) == 0 {
				m.Probe = &interaction.Probe{ID: fmt.Sprint("p", r.IntN(12)),
					Answer: []string{"", tagOf("answer", 1), tagOf("answer", 2)}[r.IntN(3)]}
			}
			m.Figures = interaction.ModelFigures{
				Duration: figure(5000), OutputTokens: tokens(), Turnaround: figure(step), OutputWords: figure(1500),
				ToolCallsMade: figure(3), SelfReferences: figure(3),
				DepthRelayed: figure(4), SampleBytes: figure(1 << 15), WordEntropy: figure(9000), Compression: figure(500),
			}
			m.Figures.SampleBytes.Value += 4096
			c.Model = m
			if r.IntN(5) > 0 {
				c.Timing.LLMEnd = at + r.Int64N(5000)
			}
		}
		v.Receipts = append(v.Receipts, bare(&c))
	}
	return v
}
