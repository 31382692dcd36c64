// Package interaction holds interaction receipts. The sidecar signs one for each model call that it observes, for each
// post, and for the end of a session. Each session has one chain of them. Caller tokens and statements name their agent
// to the node.
package interaction
