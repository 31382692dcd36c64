// Package gate verifies the chain of evidence of one post. APIs that take part use it; the mediator uses it for all
// other APIs.
//
//	chain.go        the checks of the chain, in order; deployment.go remembers the last certificate
//	gate.go         [Gate]: a chain earns a capability, and a request proof over it allows a post
//	files.go        [FromFiles]: an API's part from files, kept current
//	server.go       [Server]: an API's endpoints; middleware.go and transaction.go protect its posts
//	client.go       [Client]: a mediator asks such an API
//	assurance.go    reports what a post's checks prove; record.go verifies a recorded post
//
// # For API owners
//
// [FromFiles] makes a [Server] from the two roots' public keys, the certified manifest, the trust bundle and a secret
// of your own, and follows changes of manifest and bundle. Copy examples/api, a whole API that docs/api-owners.md
// explains. [New] and [NewServer] take parts that you read yourself.
//
//   - [Server.Challenge] issues challenges.
//   - [Server.Verify] verifies an envelope, consumes it, and returns a capability.
//   - [Server.Middleware] verifies each request, and consumes its keys before your handler or in your transaction.
//
// The first two need no login, but they cost work: limit their rate.
//
// # Who consumes
//
// [Gate.Admit] and [Gate.Authorize] return keys but do not consume them. A [Server] consumes a chain's keys before it
// returns the capability. The mediator's own gate consumes all keys with the intent to post, in one transaction.
//
// # One chain, always whole
//
// [Gate.Admit] and [Gate.Authorize] are ActionProof's verifiers (verifyStrictAutonomousResponse,
// verifyStrictGrantedAutonomousPosting and so on). No option skips a check.
package gate
