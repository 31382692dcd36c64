// Package interaction holds interaction receipts: what the sidecar signs of each call to a model that it observes, of each post, and of the
// end of a session, in one chain for each session.
//
//	receipt.go    the claims of a receipt; figures.go what is counted of a call to a model, and how each figure can be known
//	check.go      the checks on them
//	commit.go     the commitments in a receipt, and the name of an owner
//	caller.go     caller tokens, by which the sidecar tells the node which agent makes a request
//	statement.go  statements, by which the sidecar signs for the agent what the agent publishes
//	chain.go      the verification of a chain
//
// It reads and verifies. Which calls leave a receipt, and what is counted of them, is the sidecar's work.
package interaction
