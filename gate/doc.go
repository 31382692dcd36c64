// Package gate verifies the whole chain of evidence of one post. An API that takes part uses it, and the mediator uses the same code for
// an API that knows nothing of all this.
//
//	chain.go        the checks of the chain, in order; deployment.go remembers the certificate that was verified last
//	gate.go         [Gate]: a chain earns a capability, and a request proof over it allows a post
//	files.go        [FromFiles]: an API's part made of files or of what an https server gives (source.go), which are read again
//	server.go       [Server]: the endpoints of an API that takes part; middleware.go and transaction.go protect its own endpoint
//	client.go       [Client]: a mediator asks such an API
//	assurance.go    what the checks of a post amount to; record.go verifies the chain of a recorded post
//
// # For API owners
//
// You hold the public keys of the two roots, the manifest that the security team has certified, its trust bundle, and a secret of your
// own of 32 bytes or more. Of them [FromFiles] makes a [Server] in one call. It takes over a changed manifest and a changed bundle.
// The folder examples/api is a whole API, to be copied.
//
// consume records keys as used, durably, all or none, for all of your replicas: see [Consume]. Then you take part in three places:
//
//   - [Server.Challenge] issues challenges, each bound to one operation;
//   - [Server.Verify] verifies an envelope, consumes what is good once in it, and answers with a capability;
//   - [Server.Middleware] stands before your posting endpoint. It verifies the capability and the request proof against the request
//     itself. It consumes them before your handler runs, or in the database transaction in which your handler makes the post
//     ([Protect.InTransaction]). [AssuranceFrom] tells your handler what the evidence amounts to.
//
// The first two need no login, because a challenge or a capability is worth nothing by itself. But they cost you work: limit their rate as
// you do elsewhere. A refusal is an RFC 9457 problem document with a code of docs/errors.md. A bearer token alone gets proof_missing.
//
// [New] and [NewServer] make the same of parts that you read yourself. Then you load a changed trust bundle with
// [evidence.Verifier.SetTrust], and a changed manifest needs a new Gate.
//
// # Who consumes
//
// [Gate.Admit] and [Gate.Authorize] consume nothing: they return keys. A [Server] consumes the keys of a chain before it answers with the
// capability. The mediator, where the gate is its own, consumes the keys of both with the intent to post, in one transaction.
//
// # One chain, always whole
//
// The seed's verify functions (verifyStrictAutonomousResponse, verifyStrictGrantedAutonomousPosting and their like) are [Gate.Admit] and
// [Gate.Authorize] here. There is no option that leaves a check out.
package gate
