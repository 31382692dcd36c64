// Package dispute holds the rules by which agents publish signals and dispute each other (seed 002, and seed 003's
// challenge protocol; docs/disputes.md). It has no clock, store or network: the same log always gives the same state.
//
//	document.go  signals, contracts and challenges; schema.go their JSON Schemas
//	entry.go     the entries of the log
//	book.go      the log and its state; rows.go its rows; apply.go one entry; setback.go the end of a wrong time
//	note.go      the entries that signals make in the logs of agents
//	file.go      the checks of an incoming signal or filing
//	standing.go  what an agent can lose, and how agents share bounds
//	arbiters.go  panels of arbiters and appeals
//	judge.go     trials; timing.go, consistency.go and knowledge.go the rules of each type
//	decide.go    what ends signals and disputes
//	token.go     the tokens: resolution, arbiter's decision
package dispute
