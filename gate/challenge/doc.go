// Package challenge asks for fresh work that is bound to one action, and verifies that it was done (seed: createChallenge,
// solvePublicTask, verifyResponse, verifyCapability).
//
// A [Challenge] holds tasks of several kinds. Each task has exactly one correct answer, which its generator has proved by solving
// it, and needs nothing but its own instructions and input to be solved. The answers never leave the issuer: the challenge's token
// holds salted hashes of them, so that verifying needs no memory.
//
//	issuer, err := challenge.NewIssuer(secret, challenge.Options{Issuer: "api", Audience: "api", Now: time.Now})
//	ch, err := issuer.Create(ctx, binding)                       // the API, before the post
//	answers, err := challenge.Solve(ctx, ch.Tasks)               // the agent, or the runtime that works for it
//	claims, err := issuer.VerifyToken(ctx, ch.Token, response, challenge.Want{Binding: binding, MaxAge: 15 * time.Second})
//
// Nothing here is consumed. Whoever verifies reserves the challenge's id, mints a capability with [Mint], and consumes the key that
// [VerifyCapability] returns in the transaction that makes the post.
//
// A deployment adds task kinds that its clients have never seen by implementing [Pack].
package challenge
