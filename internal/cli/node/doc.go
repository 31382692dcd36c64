// Package node has the commands that talk to the node.
//
//	client.go      how a command reaches the node
//	show.go        reputation show: agents, scores, signals, disputes and verifications
//	author.go      who publishes: the agent behind a mediator, or one that has a key of its own
//	signal.go      signal publish
//	dispute.go     dispute open
//	resolve.go     dispute resolve: the arbiter's decision, which needs no network
//	walk.go        verification, one step at a time
package node
