package challenge_test

import (
	"encoding/json"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/test/check"
)

func FuzzSolve(f *testing.F) {
	for n, d := range difficulties {
		for _, p := range challenge.Builtin() {
			t, _, err := p.Generate(seeded(byte(n)), d)
			check.Must(f, err)
			f.Add(p.Kind(), []byte(t.Input))
		}
	}
	f.Fuzz(func(t *testing.T, kind string, input []byte) {
		tasks := []challenge.Task{{ID: "t", Kind: kind, Input: input}}
		answers, err := challenge.Solve(t.Context(), tasks)
		if err != nil {
			if refusal.CodeOf(err) == "" {
				t.Errorf("an error without a code: %v", err)
			}
			return
		}
		again, err := challenge.Solve(t.Context(), tasks)
		if err != nil || !evidence.IsHash(answers["t"]) || again["t"] != answers["t"] {
			t.Errorf("%v, then %v, %v", answers, again, err)
		}
	})
}

func FuzzParseResponse(f *testing.F) {
	f.Add([]byte(`{"challengeId":"c","answers":{"t1":"00"}}`))
	f.Add([]byte(`{"challengeId":"c","answers":{"t1":"` + evidence.HashBytes(nil) + `"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) { roundTrip(t, raw, challenge.ParseResponse) })
}

func FuzzParseChallenge(f *testing.F) {
	// Short, because the fuzzer wastes time on shortening.
	f.Add([]byte(
		`{"id":"c","difficulty":"lite","instructions":"","binding":{"action":"a","contentHash":"h","nonce":"n","resource":` +
			`"r","subject":"s"},"tasks":[{"id":"t","input":{},"instructions":"","kind":"vm"}],"token":"t","expiresAt":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) { roundTrip(t, raw, challenge.ParseChallenge) })
}

func roundTrip[T any](t *testing.T, raw []byte, parse func([]byte) (T, error)) {
	v, err := parse(raw)
	if err != nil {
		if refusal.CodeOf(err) == "" {
			t.Errorf("an error without a code: %v", err)
		}
		return
	}
	again, err := json.Marshal(v)
	check.Must(t, err)
	second, err := parse(again)
	if err != nil {
		t.Fatalf("what was parsed is refused when it is written again: %v", err)
	}
	a, errA := evidence.HashValue(v)
	b, errB := evidence.HashValue(second)
	if errA != nil || errB != nil || a != b {
		t.Errorf("%v, %v: %+v was read again as %+v", errA, errB, v, second)
	}
}
