package challenge_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/test/check"
)

type attempt struct {
	ch   challenge.Challenge
	r    evidence.Response
	want challenge.Want
	now  time.Time
}

func newAttempt(t *testing.T, i *challenge.Issuer) *attempt {
	t.Helper()
	ch := create(t, i, binding)
	r := solve(t, ch)
	r.Answers = maps.Clone(r.Answers)
	return &attempt{ch, r, want, start}
}

func TestVerifyRefuses(t *testing.T) {
	now := start
	clock := func() time.Time { return now }
	i := newIssuer(t, challenge.Options{Now: clock})
	other := create(t, i, binding)
	mint := func(a *attempt) string {
		token, _, err := challenge.Mint(newSecret(t, secretText),
			evidence.NewRegistered("api", "api", start, time.Minute),
			evidence.Capability{Binding: *a.ch.Binding, ChallengeID: a.ch.ID})
		check.Must(t, err)
		return token
	}
	for _, tt := range []struct {
		name, code string
		whole      bool // visible only with the whole challenge
		spoil      func(*attempt)
	}{
		{"a token altered", "signature_invalid", false, func(a *attempt) {
			a.ch.Token = a.ch.Token[:len(a.ch.Token)-43] + strings.Repeat("A", 43)
		}},
		{"a token cut off", "artifact_malformed", false, func(a *attempt) { a.ch.Token = a.ch.Token[:40] }},
		{"no token", "artifact_missing", false, func(a *attempt) { a.ch.Token = "" }},
		{"a huge token", "artifact_malformed", false, func(a *attempt) { a.ch.Token = strings.Repeat("A", 1<<20) }},
		{"a capability for a token", "artifact_malformed", false, func(a *attempt) { a.ch.Token = mint(a) }},
		{"the age left open", "not_allowed", false, func(a *attempt) { a.want.MaxAge = 0 }},
		{"before its time", "clock_skew", false, func(a *attempt) { a.now = start.Add(-3 * time.Second) }},
		{"too old", "expired", false, func(a *attempt) { a.now = start.Add(18 * time.Second) }},
		{"expired", "expired", false, func(a *attempt) { a.now, a.want.MaxAge = start.Add(32*time.Second), time.Hour }},
		{"another subject", "challenge_refused", false, func(a *attempt) { a.want.Binding.Subject = "user_124" }},
		{"another action", "challenge_refused", false, func(a *attempt) { a.want.Binding.Action = "delete_post" }},
		{"another resource", "challenge_refused", false, func(a *attempt) { a.want.Binding.Resource = "POST /posts/" }},
		{"other content", "challenge_refused", false, func(a *attempt) {
			a.want.Binding.ContentHash = evidence.HashBytes(nil)
		}},
		{"half a binding", "challenge_refused", false, func(a *attempt) {
			a.want.Binding = evidence.Binding{Subject: binding.Subject}
		}},
		{"another challenge's answers", "challenge_refused", false, func(a *attempt) { a.r = solve(t, other) }},
		{"another challenge's token", "challenge_refused", false, func(a *attempt) { a.ch = other }},
		{"an empty response", "challenge_refused", false, func(a *attempt) { a.r = evidence.Response{} }},
		{"an answer too few", "challenge_refused", false, func(a *attempt) { delete(a.r.Answers, "t1") }},
		{"an answer too many", "challenge_refused", false, func(a *attempt) { a.r.Answers["t9"] = a.r.Answers["t1"] }},
		{"an answer to no task", "challenge_refused", false, func(a *attempt) {
			a.r.Answers["t9"] = a.r.Answers["t1"]
			delete(a.r.Answers, "t1")
		}},
		{"no answers", "challenge_refused", false, func(a *attempt) { a.r.Answers = nil }},
		{"an answer in upper case", "challenge_refused", false, func(a *attempt) {
			a.r.Answers["t1"] = strings.ToUpper("a" + a.r.Answers["t1"][1:])
		}},
		{"an answer too short", "challenge_refused", false,
			func(a *attempt) { a.r.Answers["t1"] = a.r.Answers["t1"][1:] }},
		{"the answer text itself", "challenge_refused", false, func(a *attempt) { a.r.Answers["t1"] = "3-0-7:19" }},
		{"a wrong answer", "challenge_refused", false,
			func(a *attempt) { a.r.Answers["t4"] = evidence.HashBytes(nil) }},
		{"answers exchanged", "challenge_refused", false, func(a *attempt) {
			a.r.Answers["t1"], a.r.Answers["t2"] = a.r.Answers["t2"], a.r.Answers["t1"]
		}},
		{"another id", "challenge_refused", true, func(a *attempt) { a.ch.ID = other.ID }},
		{"another difficulty", "challenge_refused", true, func(a *attempt) { a.ch.Difficulty = challenge.Lite }},
		{"another expiry", "challenge_refused", true, func(a *attempt) { a.ch.ExpiresAt++ }},
		{"another nonce", "challenge_refused", true, func(a *attempt) { a.ch.Binding = other.Binding }},
		{"the binding left out", "challenge_refused", true, func(a *attempt) { a.ch.Binding = nil }},
		{"a task renamed", "challenge_refused", true, func(a *attempt) { a.ch.Tasks[0].ID = "t7" }},
		{"a task too few", "challenge_refused", true, func(a *attempt) { a.ch.Tasks = a.ch.Tasks[:3] }},
		{"tasks exchanged", "challenge_refused", true, func(a *attempt) {
			a.ch.Tasks[0], a.ch.Tasks[1] = a.ch.Tasks[1], a.ch.Tasks[0]
		}},
		{"another challenge's tasks", "challenge_refused", true, func(a *attempt) { a.ch.Tasks = other.Tasks }},
		{"other instructions", "challenge_refused", true,
			func(a *attempt) { a.ch.Tasks[0].Instructions += " Or do not." }},
		{"an input that is no JSON", "challenge_refused", true, func(a *attempt) {
			a.ch.Tasks[0].Input = json.RawMessage(`{`)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			verify := func(a *attempt) (whole, token error) {
				now = a.now
				_, whole = i.Verify(t.Context(), a.ch, a.r, a.want)
				_, token = i.VerifyToken(t.Context(), a.ch.Token, a.r, a.want)
				return whole, token
			}
			now = start
			a := newAttempt(t, i)
			if whole, token := verify(a); whole != nil || token != nil {
				t.Fatalf("refused before anything is spoilt: %v, %v", whole, token)
			}
			tt.spoil(a)
			whole, token := verify(a)
			wantCode(t, whole, tt.code)
			if tt.whole && token != nil {
				t.Errorf("the token alone is refused: %v", token)
			}
			if !tt.whole {
				wantCode(t, token, tt.code)
			}
		})
	}
}

// TestRefusalsComeInOrder spoils everything and mends one thing after the other.
func TestRefusalsComeInOrder(t *testing.T) {
	now := start
	i := newIssuer(t, challenge.Options{Now: func() time.Time { return now }})
	good := newAttempt(t, i)
	bad := newAttempt(t, i)
	bad.ch.Token = good.ch.Token[:40]
	bad.r = evidence.Response{ChallengeID: "x", Answers: map[string]string{"t9": "x"}}
	bad.ch.ID, bad.want, now = "x", challenge.Want{Binding: evidence.Binding{Subject: "x"}, MaxAge: time.Second},
		start.Add(time.Hour)
	bad.ch.Tasks = bad.ch.Tasks[:1]
	for _, step := range []struct {
		code string
		mend func()
	}{
		{"artifact_malformed", func() { bad.ch.Token = good.ch.Token[:len(good.ch.Token)-43] + strings.Repeat("A", 43) }},
		{"signature_invalid", func() { bad.ch.Token = good.ch.Token }},
		{"expired", func() { now = start.Add(10 * time.Second) }},
		{"expired", func() { bad.want.MaxAge = 15 * time.Second }},
		{"challenge_refused", func() { bad.want.Binding = binding }},
		{"challenge_refused", func() { bad.ch.ID, bad.ch.Binding = good.ch.ID, good.ch.Binding }},
		{"challenge_refused", func() { bad.ch.Tasks = good.ch.Tasks }},
		{"challenge_refused", func() { bad.r.ChallengeID = good.ch.ID }},
		{"challenge_refused", func() { bad.r.Answers = map[string]string{"t1": "x", "t2": "x", "t3": "x", "t4": "x"} }},
		{"challenge_refused", func() {
			for id := range bad.r.Answers {
				bad.r.Answers[id] = evidence.HashBytes(nil)
			}
		}},
		{"challenge_refused", func() { bad.r = good.r }},
	} {
		_, err := i.Verify(t.Context(), bad.ch, bad.r, bad.want)
		wantCode(t, err, step.code)
		step.mend()
	}
	if _, err := i.Verify(t.Context(), bad.ch, bad.r, bad.want); err != nil {
		t.Errorf("refused when everything is mended: %v", err)
	}
}

func TestOnlyItsOwnTokens(t *testing.T) {
	a := newAttempt(t, newIssuer(t, challenge.Options{}))
	stranger, err := challenge.NewIssuer(newSecret(t, []byte(strings.Repeat("x", 32))),
		challenge.Options{Issuer: "api", Audience: "api", Now: func() time.Time {
			return start
		}})
	check.Must(t, err)
	for _, tt := range []struct {
		code string
		i    *challenge.Issuer
	}{
		{"signature_invalid", stranger},
		{"not_allowed", newIssuer(t, challenge.Options{Issuer: "other", Audience: "api"})},
		{"not_allowed", newIssuer(t, challenge.Options{Issuer: "api", Audience: "other"})},
	} {
		_, err := tt.i.Verify(t.Context(), a.ch, a.r, a.want)
		wantCode(t, err, tt.code)
		_, err = tt.i.VerifyToken(t.Context(), a.ch.Token, a.r, a.want)
		wantCode(t, err, tt.code)
	}
}

func TestUnbound(t *testing.T) {
	ctx := t.Context()
	i := newIssuer(t, challenge.Options{})
	bound, unbound := create(t, i, binding), create(t, i, evidence.Binding{})
	if unbound.Binding != nil {
		t.Errorf("bound to %+v", unbound.Binding)
	}
	open := challenge.Want{MaxAge: time.Minute}
	for _, ch := range []challenge.Challenge{bound, unbound} {
		if _, err := i.Verify(ctx, ch, solve(t, ch), open); err != nil {
			t.Errorf("with the challenge's own binding: %v", err)
		}
		_, err := i.VerifyToken(ctx, ch.Token, solve(t, ch), open)
		wantCode(t, err, "not_allowed")
	}
	claimed := unbound
	claimed.Binding = bound.Binding
	_, err := i.Verify(ctx, claimed, solve(t, unbound), open)
	wantCode(t, err, "challenge_refused")
	_, err = i.Verify(ctx, unbound, solve(t, unbound), want)
	wantCode(t, err, "challenge_refused")
	_, err = i.VerifyToken(ctx, unbound.Token, solve(t, unbound), want)
	wantCode(t, err, "challenge_refused")
}

func TestReencodedTasks(t *testing.T) {
	i := newIssuer(t, challenge.Options{})
	ch := create(t, i, binding)
	r := solve(t, ch)
	for n, task := range ch.Tasks {
		var input map[string]any
		check.Must(t, json.Unmarshal(task.Input, &input))
		raw, err := json.MarshalIndent(input, "", "\t")
		check.Must(t, err)
		ch.Tasks[n].Input = raw
	}
	if _, err := i.Verify(t.Context(), ch, r, want); err != nil {
		t.Error(err)
	}
}
