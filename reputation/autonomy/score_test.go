package autonomy_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/strategy"
	"github.com/actionproof/mediator/test/check"
)

func TestOneByOne(t *testing.T) {
	receipts, baseline := working(60, 1), usual()
	grows := autonomy.NewSession([]string{host})
	for i, r := range receipts {
		grows.Add(evidence.HashBytes(fmt.Append(nil, i)), r)
		got, again := autonomy.Appraise(grows, nil, baseline), autonomy.Appraise(grows, nil, baseline)
		want := autonomy.Appraise(measured(receipts[:i+1]), nil, baseline)
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(got, again) {
			t.Fatalf("after %d receipts\n got %+v\nwant %+v\nthen %+v", i+1, got, want, again)
		}
	}
	if grows.Len() != 60 || grows.Head() != evidence.HashBytes([]byte("59")) || grows.Closed() {
		t.Errorf("%d, %s, closed %t", grows.Len(), grows.Head(), grows.Closed())
	}
}

func TestLongSessions(t *testing.T) {
	for _, n := range []int{9, 10, 11, 19, 100, 999} {
		score := autonomy.Appraise(measured(working(n, 3)), nil, usual())
		blocks := len(score.Interval.LeaveOut)
		if n < 10 && (blocks != 0 || score.Interval.Lower != 0 || score.Interval.Upper != 100) {
			t.Errorf("%d calls: %+v", n, score.Interval)
		}
		if n >= 10 &&
			(blocks != 10 || score.Interval.Lower > score.Composite || score.Interval.Upper < score.Composite ||
				score.Interval.Lower < 0 || score.Interval.Upper > 100) {
			t.Errorf("%d calls: %v, %+v", n, score.Composite, score.Interval)
		}
	}
}

func TestClosed(t *testing.T) {
	longest := strings.Repeat("h", 127)
	s := autonomy.NewSession([]string{longest})
	r := working(1, 1)[0]
	r.Model.Host = longest
	s.Add("", r)
	if n := autonomy.Appraise(s, nil, nil).N; n != 1 || s.Closed() {
		t.Errorf("%d calls, closed %t", n, s.Closed())
	}
	if s.Add("", last(1)); !s.Closed() {
		t.Error("it is not closed")
	}
}

func TestMostPoints(t *testing.T) {
	seed := map[string]float64{"timing": 20, "recursion": 25, "knowledge": 20, "entropy": 20, "challenge": 15}
	got := map[string]float64{}
	s := autonomy.Appraise(measured(nil), nil, nil).Signals
	for name, signal := range map[string]autonomy.Signal{"timing": s.Timing.Signal, "recursion": s.Recursion.Signal,
		"knowledge": s.Knowledge.Signal, "entropy": s.Entropy.Signal, "challenge": s.Challenge.Signal} {
		for _, p := range signal.Parts {
			got[name] += p.Of
		}
	}
	if !reflect.DeepEqual(got, seed) {
		t.Errorf("%v, want %v", got, seed)
	}
	var f struct{ Weights, Caps map[string]float64 }
	check.Must(t, json.Unmarshal(autonomy.Formulas(), &f))
	total := 0.0
	for _, w := range f.Weights {
		total += w
	}
	if !reflect.DeepEqual(f.Caps, seed) || total < 1-1e-12 || total > 1+1e-12 {
		t.Errorf("weights %v, caps %v", f.Weights, f.Caps)
	}
}

func TestFormulasAreNamed(t *testing.T) {
	if autonomy.Version() != "2" ||
		autonomy.ScoringHash != "19b78dd403989301afbfb20cbf43e062c5529ce4425e6335ef49dbe7fe0b49e7" {
		t.Errorf("version %s has the hash %s: a change of the formulas is a new version", autonomy.Version(),
			autonomy.ScoringHash)
	}
	if evidence.HashBytes(autonomy.Formulas()) != autonomy.ScoringHash {
		t.Error("the hash is not that of the formulas")
	}
	autonomy.Formulas()[0] = 'x'
	if autonomy.Formulas()[0] != '{' {
		t.Error("a caller can change the formulas")
	}
}

func TestReceiptsFromElsewhere(t *testing.T) {
	receipts := working(300, 1)
	for i, r := range receipts {
		r.Model.Model = fmt.Sprint("model-", i)
		r.Challenge = &interaction.ChallengeRef{ChallengeNonce: fmt.Sprint("nonce-", i%100),
			CommitmentHash: evidence.HashBytes(fmt.Append(nil, i))}
		r.Relayed, r.RelayedCount = []interaction.RelayedCall{{Host: fmt.Sprint("host-", i), Tool: "t"}}, 1
	}
	s := measured(receipts)
	score, sample := autonomy.Appraise(s, nil, usual()), s.Sample()
	if len(sample.Models) != 64 || len(score.Signals.Knowledge.Domains) != 16 {
		t.Errorf("%d models, %d domains", len(sample.Models), len(score.Signals.Knowledge.Domains))
	}
}

func TestBaselineOfManyModels(t *testing.T) {
	var samples []autonomy.Sample
	for i := range 300 {
		common := autonomy.ModelSample{Host: "z", Model: "common", Speed: &autonomy.SpeedSample{Median: float64(i), MAD: 1}}
		rare := autonomy.ModelSample{Host: "a", Model: fmt.Sprintf("rare-%03d", i),
			Speed: &autonomy.SpeedSample{Median: 1, MAD: 1}}
		samples = append(samples, autonomy.Sample{Models: []autonomy.ModelSample{rare, common}})
	}
	b := autonomy.NewBaseline("owner", samples)
	if len(b.Models) != 256 || b.Models[255].Model != "common" || b.Models[255].Speed.N != 300 ||
		b.Models[254].Model != "rare-254" || b.Sessions != 300 {
		t.Errorf("%d models, the last %+v", len(b.Models), b.Models[255])
	}
	want, err := b.Hash()
	check.Must(t, err)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
	if got, err := autonomy.NewBaseline("owner", samples).Hash(); err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestBaselineThatHasNoHash(t *testing.T) {
	b := usual()
	b.Models[0].Speed.Median = math.Inf(1)
	if hash, err := b.Hash(); err == nil {
		t.Errorf("it is %s", hash)
	}
}

func TestNothingPassed(t *testing.T) {
	plan := strategy.Strategy{Tools: []string{}, Hosts: []string{host}, Model: "another",
		Calls: strategy.Calls{Min: 1, Max: 10}}
	hash, err := strategy.Commitment("n", "AAAAAAAAAAAAAAAAAAAAAA", plan)
	check.Must(t, err)
	challenges := []autonomy.Challenge{{Nonce: "n", Commitment: hash, Salt: "AAAAAAAAAAAAAAAAAAAAAA", Strategy: &plan}}
	s := autonomy.NewSession([]string{host})
	s.Add("", &interaction.Receipt{
		Outcome: interaction.OutcomeCompleted,
		Model: &interaction.ModelCall{Host: host, Model: "m",
			Figures: interaction.ModelFigures{ToolCallsMade: interaction.Observed(0)}},
		Challenge: &interaction.ChallengeRef{ChallengeNonce: "n", CommitmentHash: hash, CommitmentRevealed: true},
	})
	for range 32 {
		if got := autonomy.Appraise(s, challenges, nil).Signals.Challenge; got.Score != 0 || got.Accuracy != 0.75 ||
			got.Passed != 0 {
			t.Errorf("%+v", got)
		}
		challenges = append(challenges, autonomy.Challenge{Nonce: "another"})
	}
}

func TestCheckHosts(t *testing.T) {
	for name, test := range map[string]struct {
		hosts []string
		ok    bool
	}{
		"none": {nil, true}, "one": {[]string{host}, true}, "as long as can be": {[]string{strings.Repeat("h", 127)}, true},
		"too long": {[]string{strings.Repeat("h", 128)}, false}, "empty": {[]string{""}, false},
		"32": {slices.Repeat([]string{host}, 32), true}, "33": {slices.Repeat([]string{host}, 33), false},
	} {
		if err := autonomy.CheckHosts(test.hosts); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzAppraise: a token can carry any score. Eight bytes make a receipt.
func FuzzAppraise(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 12, 90, 200} {
		raw := make([]byte, 8*n)
		for i := range raw {
			raw[i] = byte(random.Uint32())
		}
		f.Add(raw)
	}
	f.Add(slices.Repeat([]byte{0, 7, 7, 7, 7, 7, 7, 7}, 30))
	baseline := usual()
	f.Fuzz(func(t *testing.T, raw []byte) {
		var receipts []*interaction.Receipt
		for ; len(raw) >= 8 && len(receipts) < 256; raw = raw[8:] {
			receipts = append(receipts, anyReceipt(len(receipts), [8]byte(raw)))
		}
		s := measured(receipts)
		s.Add(evidence.HashBytes(nil), last(len(receipts)))
		score := autonomy.Appraise(s, []autonomy.Challenge{{Nonce: "n", Probes: [][2]string{{"0", "1"}, {"2", "3"}}}},
			baseline)
		if _, err := signed(t, autonomy.NewClaims(s, "", score)); err != nil {
			t.Errorf("%v: %+v", err, score)
		}
	})
}

func anyReceipt(n int, b [8]byte) *interaction.Receipt {
	values := []int64{0, 1, 17, 1000, 1001, 4096, 1_800_000_000_000, 1<<53 - 1}
	value := func(b byte) int64 { return values[b%8] + int64(b/64) - int64(b/64)*int64(b%8/7) }
	figure := func(at int) interaction.Figure {
		if b[at]&8 != 0 {
			return interaction.NotMeasured
		}
		return interaction.Observed(value(b[at]))
	}
	r := &interaction.Receipt{Owner: "owner", Agent: "agent", Outcome: interaction.OutcomeCompleted,
		Chain: interaction.ChainLink{SessionID: "ses_1", SequenceNumber: int64(n + 1)}}
	r.Timing = interaction.Timing{RequestReceived: 1 + value(b[1])/2, LLMEnd: 1 + value(b[1]) - value(b[1])%2}
	if b[0]&3 == 3 {
		r.Relayed, r.RelayedCount = []interaction.RelayedCall{{Host: fmt.Sprint(b[2]), Tool: "t"}}, 1
	}
	switch b[0] >> 6 {
	case 1:
		r.Outcome = interaction.OutcomeFailed
	case 2:
		r.Post = &interaction.PostMade{Status: 201}
		return r
	}
	r.Model = &interaction.ModelCall{Host: host, Model: fmt.Sprint("model-", b[0]>>2&1),
		ReturnedCalls: []string{tagOf("call", int(b[3])%(n+1))}}
	if b[0]&56 == 56 {
		r.Model.Host = "another"
	}
	r.Model.ToolCalls = []interaction.ToolCall{
		{ID: tagOf("call", n), Tool: fmt.Sprint(b[4] % 8), Arguments: tagOf("arguments", int(b[5]))}}
	r.Model.Probe = &interaction.Probe{ID: fmt.Sprint(b[6] % 8), Answer: tagOf("answer", int(b[7])%2)}
	r.Model.Figures = interaction.ModelFigures{
		Duration: figure(2), OutputTokens: figure(3), Turnaround: figure(4), OutputWords: figure(5),
		SelfReferences: figure(6), DepthRelayed: figure(7),
		SampleBytes: interaction.Observed(4096 + value(b[2])/2), WordEntropy: figure(5), Compression: figure(6),
		ToolCallsMade: interaction.Observed(1),
	}
	return r
}

func last(n int) *interaction.Receipt {
	return &interaction.Receipt{
		Owner: "owner", Agent: "agent", Chain: interaction.ChainLink{SessionID: "ses_1", SequenceNumber: int64(n + 1)},
		Closing: &interaction.Closing{Reason: interaction.ClosedEnded},
		Session: interaction.SessionTotals{Calls: 10, CallsObserved: 5, BytesOut: 10, BytesOutObserved: 1},
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
