// Package gate verifies the whole chain of evidence of one post and sees to its single use. It is what an API owner needs, and what
// the mediator itself uses for an API that knows nothing of all this: the same code.
//
// # For API owners
//
// You hold four things: the two pinned root keys, the manifest that the security team has certified, its trust bundle, and a secret of
// your own of 32 bytes or more. From them you make, once:
//
//	trust, _ := evidence.NewTrust(roots, bundle, strict.Signers)
//	verifier, _ := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: time.Now})
//	challenges, _ := challenge.NewIssuer(secret, challenge.Options{Issuer: name, Audience: name, Now: time.Now})
//	g, _ := gate.New(gate.Options{Challenges: challenges, Secret: secret, Issuer: name, Verifier: verifier, Strict: strict})
//	server, _ := gate.NewServer(g, consume)
//
// consume makes keys durable, all or none, for all of your replicas: see [Consume]. Then you take part in three places:
//
//   - [Server.Challenge] issues challenges, each bound to one operation;
//   - [Server.Verify] verifies an envelope, consumes what is good once in it, and mints a capability;
//   - [Server.Middleware] stands before your posting endpoint. It verifies the capability and the request proof against the request
//     itself, and consumes them: before your handler, or in the database transaction in which it makes the post
//     ([Protect.InTransaction]). [AssuranceFrom] tells your handler what the evidence amounts to.
//
// The first two need no login, as what they give is worth nothing by itself, but they cost you work: limit their rate as you do elsewhere.
// A refusal is an RFC 9457 problem document with a code of docs/errors.md. Whoever holds a bearer token alone gets proof_missing.
//
// Load a changed trust bundle with [evidence.Verifier.SetTrust]; a changed manifest needs a new Gate.
//
// # One chain, always whole
//
// The seed's verify functions (verifyStrictAutonomousResponse, verifyStrictGrantedAutonomousPosting and their like) are [Gate.Admit] and
// [Gate.Authorize] here. There is no option that leaves a check out.
package gate
