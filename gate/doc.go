// Package gate verifies the chain of evidence of one post. APIs that take part use it; the mediator uses it for all
// other APIs.
//
// # For API owners
//
// [FromFiles] makes a [Server] from the two roots' public keys, the certified manifest, the trust bundle and a secret
// of your own, and rereads manifest and bundle when they change. Copy examples/api, a whole API that docs/api-owners.md
// explains. With [New] and [NewServer] you read these files yourself.
//
// [Server.Challenge] issues challenges. [Server.Verify] verifies an envelope, consumes its single-use keys (the ids of
// its tokens), and returns a capability. Callers need no login, and each call costs work: limit the rate.
// [Server.Middleware] verifies each request, and consumes its keys before your handler or in your transaction.
//
// # Who consumes single-use keys
//
// [Gate.Admit] and [Gate.Authorize], which are ActionProof's verifiers, return a chain's single-use keys but do not
// consume them. A [Server] consumes them before it returns the capability. The mediator's own gate consumes them with
// the intent to post, in one transaction. No option skips a check.
package gate
