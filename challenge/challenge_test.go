package challenge_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/challenge"
	"github.com/actionproof/mediator/evidence"
)

var (
	start   = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	binding = evidence.Binding{Subject: "user_123", Action: "create_post", Resource: "POST /posts", ContentHash: evidence.HashBytes([]byte("post"))}
)

func newIssuer(t testing.TB, o challenge.Options) *challenge.Issuer {
	t.Helper()
	secret, err := evidence.NewSecret([]byte(strings.Repeat("s", 32)))
	if err != nil {
		t.Fatal(err)
	}
	o.Issuer, o.Audience = "api", "api"
	if o.Now == nil {
		o.Now = func() time.Time { return start }
	}
	i, err := challenge.NewIssuer(secret, o)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func create(t testing.TB, i *challenge.Issuer) challenge.Challenge {
	t.Helper()
	ch, err := i.Create(context.Background(), binding)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func solve(t testing.TB, ch challenge.Challenge) evidence.Response {
	t.Helper()
	answers, err := challenge.Solve(context.Background(), ch.Tasks)
	if err != nil {
		t.Fatal(err)
	}
	return evidence.Response{ChallengeID: ch.ID, Answers: answers}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var coded interface{ Code() string }
	if !errors.As(err, &coded) || coded.Code() != code {
		t.Errorf("got %v, want code %s", err, code)
	}
}

// TestEveryChallengeIsSolved makes many challenges of every difficulty, sends them as JSON, and solves what arrives.
func TestEveryChallengeIsSolved(t *testing.T) {
	for _, d := range []challenge.Difficulty{challenge.Lite, challenge.Standard, challenge.Gauntlet} {
		t.Run(string(d), func(t *testing.T) {
			i := newIssuer(t, challenge.Options{Difficulty: d, Tasks: 8})
			for range 50 {
				ch := create(t, i)
				raw, err := json.Marshal(ch)
				if err != nil {
					t.Fatal(err)
				}
				seen, err := challenge.ParseChallenge(raw)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := i.Verify(context.Background(), seen, solve(t, seen), challenge.Want{Binding: binding, MaxAge: time.Minute}); err != nil {
					t.Fatalf("%v\n%s", err, raw)
				}
			}
		})
	}
}

func TestVerifyRefuses(t *testing.T) {
	now := start
	i := newIssuer(t, challenge.Options{Now: func() time.Time { return now }})
	want := challenge.Want{Binding: binding, MaxAge: 15 * time.Second}
	for _, tt := range []struct {
		name, code string
		spoil      func(ch *challenge.Challenge, r *evidence.Response, w *challenge.Want)
	}{
		{"another challenge's answers", "response_other_challenge", func(_ *challenge.Challenge, r *evidence.Response, _ *challenge.Want) { r.ChallengeID = "x" }},
		{"an answer too few", "response_incomplete", func(_ *challenge.Challenge, r *evidence.Response, _ *challenge.Want) { delete(r.Answers, "t1") }},
		{"an answer to no task", "response_incomplete", func(_ *challenge.Challenge, r *evidence.Response, _ *challenge.Want) {
			r.Answers["t9"] = r.Answers["t1"]
			delete(r.Answers, "t1")
		}},
		{"a wrong answer", "response_wrong", func(_ *challenge.Challenge, r *evidence.Response, _ *challenge.Want) {
			r.Answers["t1"] = evidence.HashBytes(nil)
		}},
		{"answers exchanged", "response_wrong", func(_ *challenge.Challenge, r *evidence.Response, _ *challenge.Want) {
			r.Answers["t1"], r.Answers["t2"] = r.Answers["t2"], r.Answers["t1"]
		}},
		{"upper-case hex", "response_malformed", func(_ *challenge.Challenge, r *evidence.Response, _ *challenge.Want) {
			r.Answers["t1"] = "A" + r.Answers["t1"][1:]
		}},
		{"other content", "challenge_binding_mismatch", func(_ *challenge.Challenge, _ *evidence.Response, w *challenge.Want) {
			w.Binding.ContentHash = evidence.HashBytes(nil)
		}},
		{"another subject", "challenge_binding_mismatch", func(_ *challenge.Challenge, _ *evidence.Response, w *challenge.Want) { w.Binding.Subject = "x" }},
		{"another task", "challenge_tasks_altered", func(ch *challenge.Challenge, _ *evidence.Response, _ *challenge.Want) { ch.Tasks[0].ID = "t7" }},
		{"a token altered", "signature_invalid", func(ch *challenge.Challenge, _ *evidence.Response, _ *challenge.Want) {
			ch.Token = ch.Token[:len(ch.Token)-43] + strings.Repeat("A", 43)
		}},
		{"no token", "artifact_missing", func(ch *challenge.Challenge, _ *evidence.Response, _ *challenge.Want) { ch.Token = "" }},
		{"an open age", "expectation_missing", func(_ *challenge.Challenge, _ *evidence.Response, w *challenge.Want) { w.MaxAge = 0 }},
		{"too old", "too_old", func(_ *challenge.Challenge, _ *evidence.Response, _ *challenge.Want) {
			now = start.Add(18 * time.Second)
		}},
		{"expired", "expired", func(_ *challenge.Challenge, _ *evidence.Response, _ *challenge.Want) { now = start.Add(time.Hour) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now = start
			ch := create(t, i)
			r, w := solve(t, ch), want
			r.Answers = maps.Clone(r.Answers)
			if _, err := i.Verify(context.Background(), ch, r, w); err != nil {
				t.Fatalf("the challenge is refused before anything is spoilt: %v", err)
			}
			tt.spoil(&ch, &r, &w)
			_, err := i.Verify(context.Background(), ch, r, w)
			wantCode(t, err, tt.code)
		})
	}
}

func TestHostileTasksAreBounded(t *testing.T) {
	for name, task := range map[string]challenge.Task{
		"endless program":   {Kind: "vm", Input: json.RawMessage(`{"program":[{"op":"set","reg":"a","num":1},{"op":"jnz","reg":"a","num":0}]}`)},
		"unknown register":  {Kind: "vm", Input: json.RawMessage(`{"program":[{"op":"set","reg":"z"}]}`)},
		"jump far away":     {Kind: "vm", Input: json.RawMessage(`{"program":[{"op":"jnz","reg":"a","num":99999999}]}`)},
		"many numbers":      {Kind: "subset", Input: json.RawMessage(`{"numbers":[` + strings.Repeat("1,", 99) + `1],"size":50,"sum":50,"even":0}`)},
		"two choices":       {Kind: "subset", Input: json.RawMessage(`{"numbers":[1,2,3,4],"size":2,"sum":5,"even":1}`)},
		"node out of range": {Kind: "route", Input: json.RawMessage(`{"edges":[[0,999999999,1]],"from":0,"to":1}`)},
		"two routes":        {Kind: "route", Input: json.RawMessage(`{"edges":[[0,1,1],[1,3,1],[0,2,1],[2,3,1]],"from":0,"to":3}`)},
		"document grows":    {Kind: "json", Input: json.RawMessage(`{"document":{"a":[1]},"operations":[` + strings.Repeat(`{"op":"copy","key":"a","to":"a"},`, 40) + `{"op":"sort","key":"a"}]}`)},
		"an unknown member": {Kind: "json", Input: json.RawMessage(`{"document":{},"operations":[],"x":1}`)},
		"null":              {Kind: "route", Input: json.RawMessage(`null`)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := challenge.Solve(context.Background(), []challenge.Task{task})
			wantCode(t, err, "challenge_malformed")
		})
	}
	_, err := challenge.Solve(context.Background(), []challenge.Task{{Kind: "riddle"}})
	wantCode(t, err, "challenge_unsolved")
}

func FuzzSolve(f *testing.F) {
	i := newIssuer(f, challenge.Options{Tasks: 8})
	for _, t := range create(f, i).Tasks {
		f.Add(t.Kind, []byte(t.Input))
	}
	f.Fuzz(func(t *testing.T, kind string, input []byte) {
		answers, err := challenge.Solve(context.Background(), []challenge.Task{{ID: "t", Kind: kind, Input: input}})
		if err == nil && !evidence.IsHash(answers["t"]) {
			t.Errorf("an answer that is no hash: %q", answers["t"])
		}
	})
}

func FuzzParseResponse(f *testing.F) {
	f.Add([]byte(`{"challengeId":"c","answers":{"t1":"00"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r, err := challenge.ParseResponse(raw); err == nil {
			again, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := challenge.ParseResponse(again); err != nil {
				t.Errorf("what was parsed is refused when written again: %v", err)
			}
		}
	})
}

func BenchmarkCreate(b *testing.B) {
	for _, d := range []challenge.Difficulty{challenge.Standard, challenge.Gauntlet} {
		b.Run(string(d), func(b *testing.B) {
			i := newIssuer(b, challenge.Options{Difficulty: d, Tasks: 8})
			b.ReportAllocs()
			for b.Loop() {
				create(b, i)
			}
		})
	}
}

func BenchmarkStandard(b *testing.B) {
	i := newIssuer(b, challenge.Options{})
	b.Run("create", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			create(b, i)
		}
	})
	ch := create(b, i)
	b.Run("solve", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			solve(b, ch)
		}
	})
	r := solve(b, ch)
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := i.VerifyToken(context.Background(), ch.Token, r, challenge.Want{Binding: binding, MaxAge: time.Minute}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
