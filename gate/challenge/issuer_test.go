package challenge_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/test/check"
)

func TestEveryChallengeIsSolved(t *testing.T) {
	for _, d := range difficulties {
		for _, tasks := range []int{0, 1, 8} {
			i := newIssuer(t, challenge.Options{Difficulty: d, Tasks: tasks})
			ch := create(t, i, binding)
			raw, err := json.MarshalIndent(ch, "", "  ")
			check.Must(t, err)
			seen, err := challenge.ParseChallenge(raw)
			check.Must(t, err)
			claims, err := i.Verify(t.Context(), seen, solve(t, seen), want)
			if err != nil {
				t.Fatalf("%v\n%s", err, raw)
			}
			if *claims.Binding != *ch.Binding || claims.ID != ch.ID || claims.BindingHash != ch.Binding.Hash() {
				t.Errorf("the token is not about the challenge: %+v", claims)
			}
		}
	}
}

func TestCreate(t *testing.T) {
	for _, tt := range []struct {
		d     challenge.Difficulty
		tasks int
	}{{challenge.Lite, 2}, {challenge.Standard, 4}, {challenge.Gauntlet, 6}} {
		ch := create(t, newIssuer(t, challenge.Options{Difficulty: tt.d}), binding)
		kinds := make(map[string]bool)
		for _, task := range ch.Tasks {
			kinds[task.Kind] = true
		}
		if len(ch.Tasks) != tt.tasks || len(kinds) != min(tt.tasks, 4) {
			t.Errorf("%s: %d tasks of %d kinds", tt.d, len(ch.Tasks), len(kinds))
		}
		if ch.ExpiresAt != start.Add(30*time.Second).Unix() || ch.Binding.Nonce == "" ||
			!ch.Binding.SameAction(binding) {
			t.Errorf("%s: expires at %d, bound to %+v", tt.d, ch.ExpiresAt, ch.Binding)
		}
	}
	i := newIssuer(t, challenge.Options{})
	mine := binding
	mine.Nonce = "chosen by the caller"
	first, second := create(t, i, mine), create(t, i, mine)
	if first.ID == second.ID || first.Binding.Nonce == second.Binding.Nonce || first.Binding.Nonce == mine.Nonce {
		t.Error("an id or a nonce is not fresh")
	}
	half, unwritable := binding, binding
	half.ContentHash, unwritable.Subject = "", "\xff"
	for _, b := range []evidence.Binding{half, unwritable} {
		ch, err := i.Create(t.Context(), b)
		if wantCode(t, err, "artifact_malformed"); ch.Token != "" || ch.Tasks != nil {
			t.Errorf("there is a challenge beside the refusal: %+v", ch)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := i.Create(ctx, binding); err == nil {
		t.Error("a challenge was made for a caller who has gone")
	}
}

func TestTokenKeepsAnswersSecret(t *testing.T) {
	ch := create(t, newIssuer(t, challenge.Options{}), binding)
	claims, err := evidence.UnverifiedClaims(evidence.ChallengeTokenKind(), ch.Token)
	check.Must(t, err)
	var salts []string
	for _, a := range claims.Answers {
		answer := solve(t, ch).Answers[a.ID]
		for _, spelling := range []string{answer, evidence.HashBytes([]byte(answer)),
			evidence.HashBytes([]byte(ch.ID + answer))} {
			if a.Hash == spelling {
				t.Errorf("task %s: the token gives the answer away", a.ID)
			}
		}
		if want := evidence.HashBytes([]byte(a.Salt + "\x00" + ch.ID + "\x00" + a.ID + "\x00" + answer)); a.Hash != want {
			t.Errorf("task %s: the hash is %s, want %s", a.ID, a.Hash, want)
		}
		if slices.Contains(salts, a.Salt) {
			t.Errorf("task %s: a salt is used twice", a.ID)
		}
		salts = append(salts, a.Salt)
	}
}

func TestNewIssuerRefuses(t *testing.T) {
	good := challenge.Options{Issuer: "api", Audience: "api", Now: time.Now}
	for name, change := range map[string]func(*challenge.Options){
		"no issuer":          func(o *challenge.Options) { o.Issuer = "" },
		"no audience":        func(o *challenge.Options) { o.Audience = "" },
		"no clock":           func(o *challenge.Options) { o.Now = nil },
		"unknown difficulty": func(o *challenge.Options) { o.Difficulty, o.Tasks = "hard", 2 },
		"too many tasks":     func(o *challenge.Options) { o.Tasks = 33 },
		"a negative number":  func(o *challenge.Options) { o.Tasks = -1 },
		"too long":           func(o *challenge.Options) { o.Lifetime = time.Hour },
		"too short":          func(o *challenge.Options) { o.Lifetime = time.Millisecond },
	} {
		o := good
		change(&o)
		if _, err := challenge.NewIssuer(newSecret(t, secretText), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	_, err := challenge.NewIssuer(evidence.Secret{}, good)
	wantCode(t, err, "config_malformed")
}

func TestIssuerIsSafeForConcurrentUse(t *testing.T) {
	i := newIssuer(t, challenge.Options{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				ch, err := i.Create(t.Context(), binding)
				if err != nil {
					t.Error(err)
					return
				}
				answers, err := challenge.Solve(t.Context(), ch.Tasks)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := i.VerifyToken(t.Context(), ch.Token, evidence.Response{ChallengeID: ch.ID, Answers: answers},
					want); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
