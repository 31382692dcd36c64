package autonomy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
)

const host = "api.models.example:443"

func tagOf(what string, n int) string { return evidence.HashBytes(fmt.Append(nil, what, n))[:32] }

func working(n int, seed uint64) []*interaction.Receipt {
	random, o := rand.New(rand.NewPCG(seed, 0)), interaction.Observed
	at := int64(1_800_000_000_000)
	out := make([]*interaction.Receipt, n)
	for i := range out {
		tokens, gap := 50+random.Int64N(400), 200+random.Int64N(100)
		duration := 300 + 12*tokens + random.Int64N(100)
		at += gap
		r := &interaction.Receipt{
			Owner: "an owner", Agent: "agent:worker-1", Outcome: interaction.OutcomeCompleted,
			Chain:  interaction.ChainLink{SessionID: "ses_1", SequenceNumber: int64(i + 1)},
			Timing: interaction.Timing{RequestReceived: at, LLMStart: at + 1, LLMEnd: at + duration},
			Session: interaction.SessionTotals{OpenedMS: 1, Calls: int64(i + 1), CallsObserved: int64(i + 1),
				BytesOut: int64(i+1) * 100, BytesOutObserved: int64(i+1) * 90},
			Model: &interaction.ModelCall{
				Host: host, Model: "model-1",
				ToolCalls: []interaction.ToolCall{
					{ID: tagOf("call", i), Tool: fmt.Sprint("tool", i%6), Arguments: tagOf("arguments", i)}},
			},
		}
		at += duration
		f := &r.Model.Figures
		*f = interaction.ModelFigures{
			Duration: o(duration), OutputTokens: interaction.Declared(tokens), OutputWords: o(tokens * 3 / 4),
			ToolCallsMade: o(1), SelfReferences: o(1),
			DepthRelayed: o(int64(i % 3)), SampleBytes: o(min(32<<10, 4096+int64(i)*1000)),
			WordEntropy: o(7000 + random.Int64N(100)), Compression: o(400),
		}
		if i > 0 {
			f.Turnaround, r.Model.ReturnedCalls = o(gap), []string{tagOf("call", i-1)}
		}
		out[i] = r
	}
	return out
}

func measured(receipts []*interaction.Receipt) *autonomy.Session {
	s := autonomy.NewSession([]string{host})
	for i, r := range receipts {
		s.Add(evidence.HashBytes(fmt.Append(nil, i)), r)
	}
	return s
}

func usual() *autonomy.Baseline {
	var samples []autonomy.Sample
	for seed := range uint64(12) {
		samples = append(samples, measured(working(40, seed)).Sample())
	}
	b := autonomy.NewBaseline("an owner", samples)
	return &b
}

func BenchmarkAppraise(b *testing.B) {
	receipts, baseline := working(1000, 1), usual()
	b.ReportAllocs()
	for b.Loop() {
		autonomy.Appraise(measured(receipts), nil, baseline)
	}
}
