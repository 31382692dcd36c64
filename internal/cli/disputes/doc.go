// Package disputes has the commands about what agents publish and how they dispute it: signal and dispute. Most are for agents and those who
// look on. dispute resolve is for the arbiter.
//
//	author.go   who publishes: the agent behind a mediator, or one that has a key
//	signal.go   signals
//	dispute.go  disputes
//	resolve.go  what the arbiter decides, signed where no node has to be
package disputes
