// Package challenge asks for fresh work bound to one action, and verifies it.
//
// A [Challenge] holds tasks of several kinds. Each has one correct answer, and needs only its own instructions and
// input. The token holds the answers' salted hashes, so verifying needs no memory.
//
//	issuer, err := challenge.NewIssuer(secret, challenge.Options{Issuer: "api", Audience: "api", Now: time.Now})
//	ch, err := issuer.Create(ctx, binding)                       // the API, before the post
//	answers, err := challenge.Solve(ctx, ch.Tasks)               // the agent, or the runtime that works for it
//	want := challenge.Want{Binding: binding, MaxAge: 15 * time.Second}
//	claims, err := issuer.VerifyToken(ctx, ch.Token, response, want)
//
// Nothing here is consumed. The verifier reserves the challenge's id, mints a capability with [Mint], and, in
// the transaction that makes the post, consumes the single-use id that [VerifyCapability] has returned.
package challenge
