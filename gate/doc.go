// Package gate verifies the whole chain of evidence of one post and sees to its single use. It is what an API owner needs, and what
// the mediator itself uses for an API that knows nothing of all this: the same code.
//
// An API takes part in three places:
//
//   - it issues challenges ([Server.Challenge]) bound to one operation;
//   - it verifies an envelope, consumes what is good once, and mints a capability ([Server.Verify]);
//   - its posting endpoint stands behind [Middleware], which verifies the capability and the request proof against the request
//     itself and consumes the capability, by itself or inside the endpoint's own database transaction ([KeysFrom]).
//
// The seed's verify functions (verifyStrictAutonomousResponse, verifyStrictGrantedAutonomousPosting and their like) are [Gate.Admit]
// and [Gate.Authorize] here: one chain, always whole.
package gate
