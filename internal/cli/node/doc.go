// Package node has the commands that talk to the node.
//
//	client.go   how a command reaches the node
//	show.go     reputation show; facts.go a reputation in one line
//	resolve.go  dispute resolve: the arbiter's decision, which needs no network
//	walk.go     verification, one step at a time
package node
