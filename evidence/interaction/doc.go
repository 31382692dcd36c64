// Package interaction holds interaction receipts. The sidecar signs one for each model call that it observes, for each
// post, and for the end of a session. Each session has one chain of them.
//
//	receipt.go    the claims of a receipt; figures.go the figures of a model call, and how each is known
//	check.go      checks on the claims
//	commit.go     commitments, and the name of an owner
//	caller.go     caller tokens: they tell the node which agent makes a request
//	statement.go  statements: the sidecar signs what the agent publishes
//	chain.go      verification of a chain
package interaction
