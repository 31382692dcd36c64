// Package gate verifies the chain of evidence of one post. APIs that take part use it; the mediator uses it for all
// other APIs.
//
//	chain.go        the checks of the chain, in order; deployment.go remembers the last certificate
//	gate.go         [Gate]: a chain earns a capability, and a request proof over it allows a post
//	files.go        [FromFiles]: an API's part, made of files or https URLs (source.go) that are read again
//	server.go       [Server]: an API's endpoints; middleware.go and transaction.go protect its own endpoint
//	client.go       [Client]: a mediator asks such an API
//	assurance.go    what the checks of a post amount to; record.go verifies a recorded post
//
// # For API owners
//
// [FromFiles] makes a [Server] from the public keys of the two roots, the certified manifest, the trust bundle, and a
// secret of your own. It follows changes of manifest and bundle. The folder examples/api is a whole API to copy, and
// docs/api-owners.md explains it. [New] and [NewServer] take parts that you read yourself.
//
//   - [Server.Challenge] issues challenges.
//   - [Server.Verify] verifies an envelope, consumes it, and returns a capability.
//   - [Server.Middleware] verifies capability and request proof against the request. It consumes them before your
//     handler, or in
//     the transaction that makes the post ([Protect.InTransaction]).
//
// The first two need no login, but they cost work: limit their rate.
//
// # Who consumes
//
// [Gate.Admit] and [Gate.Authorize] return keys and consume nothing. A [Server] consumes a chain's keys before it
// returns the capability. The mediator's own gate consumes all keys with the intent to post, in one transaction.
//
// # One chain, always whole
//
// [Gate.Admit] and [Gate.Authorize] are the seed's verify functions (verifyStrictAutonomousResponse,
// verifyStrictGrantedAutonomousPosting and so on). No option skips a check.
package gate
