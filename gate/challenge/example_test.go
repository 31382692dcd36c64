package challenge_test

import (
	"context"
	"fmt"
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
