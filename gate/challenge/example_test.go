package challenge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
)

// The whole way: a challenge for one post, its solution, and the capability that the solution earns.
func Example() {
	ctx := context.Background()
	secret, err := evidence.NewSecret([]byte("replace-this-with-a-long-random-secret"))
	if err != nil {
		panic(err)
	}
	issuer, err := challenge.NewIssuer(secret,
		challenge.Options{Issuer: "posting-api", Audience: "posting-api", Now: time.Now})
	if err != nil {
		panic(err)
	}
	post := evidence.Binding{Subject: "user_123", Action: "create_post", Resource: "POST /posts",
		ContentHash: evidence.HashBytes([]byte(`{"title":"Agent update"}`))}
	ch, err := issuer.Create(ctx, post)
	if err != nil {
		panic(err)
	}

	// The agent, or the runtime that owns its whole autonomous path.
	answers, err := challenge.Solve(ctx, ch.Tasks)
	if err != nil {
		panic(err)
	}

	// The API. Before it mints anything, it reserves the challenge's id (and whatever else came as evidence) in its
	// database.
	work, err := issuer.VerifyToken(ctx, ch.Token, evidence.Response{ChallengeID: ch.ID, Answers: answers},
		challenge.Want{Binding: post, MaxAge: 15 * time.Second})
	if err != nil {
		panic(err)
	}
	capability, _, err := challenge.Mint(secret,
		evidence.NewRegistered("posting-api", "posting-api", time.Now(), 15*time.Second),
		evidence.Capability{Binding: *work.Binding, ChallengeID: work.ID, VerificationConsumed: true})
	if err != nil {
		panic(err)
	}

	// The post itself: the binding is computed again from the request, and the key is consumed in the transaction that
	// publishes.
	_, key, err := challenge.VerifyCapability(secret, capability, challenge.WantCapability{
		Issuer: "posting-api", Binding: post, MaxAge: 15 * time.Second, Now: time.Now(), Skew: evidence.DefaultSkew,
	})
	fmt.Println(key.Kind, err)
	// Output: capability <nil>
}

// private is a task pack that no client has seen: it asks for the product of two numbers.
type private struct{ kind string }

func (p private) Kind() string { return p.kind }

func (p private) Generate(r io.Reader, _ challenge.Difficulty) (challenge.Task, string, error) {
	var b [2]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return challenge.Task{}, "", err
	}
	input, err := json.Marshal([]int{int(b[0]), int(b[1])})
	return challenge.Task{
		Instructions: "The answer text is the product of the numbers. The answer is its SHA-256, lowercase hex.",
		Input:        input}, strconv.Itoa(int(b[0]) * int(b[1])), err
}

func (p private) Solve(_ context.Context, t challenge.Task) (string, error) {
	var n []int
	if err := json.Unmarshal(t.Input, &n); err != nil || len(n) != 2 {
		return "", errors.New("no product")
	}
	return strconv.Itoa(n[0] * n[1]), nil
}

func ExamplePack() {
	secret, err := evidence.NewSecret([]byte("replace-this-with-a-long-random-secret"))
	if err != nil {
		panic(err)
	}
	issuer, err := challenge.NewIssuer(secret, challenge.Options{
		Issuer: "posting-api", Audience: "posting-api", Now: time.Now, Tasks: 5,
		Packs: append(challenge.Builtin(), private{"product"}),
	})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	ch, err := issuer.Create(ctx, evidence.Binding{})
	if err != nil {
		panic(err)
	}
	_, err = challenge.Solve(ctx, ch.Tasks)
	fmt.Println("without the pack:", err)
	answers, err := challenge.Solve(ctx, ch.Tasks, private{"product"})
	if err != nil {
		panic(err)
	}
	_, err = issuer.Verify(ctx, ch, evidence.Response{ChallengeID: ch.ID, Answers: answers},
		challenge.Want{MaxAge: time.Minute})
	fmt.Println("with it:", err)
	// Output:
	// without the pack: no solver is known for tasks of kind "product"
	// with it: <nil>
}
