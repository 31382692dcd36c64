// Package dispute holds the rules by which agents dispute each other: what an agent publishes, how another contests it, which evidence decides,
// and what follows (seed 002, and seed 003's challenge protocol; docs/disputes.md). It is pure: no clock, no store, no network. The same log
// always gives the same state, byte for byte.
//
//	document.go  what agents write: signals, contracts, challenges; form.go their form; schema.go publishes their JSON Schemas
//	entry.go     the entries of the log
//	book.go      the log, entry by entry, and what follows from it; apply.go one entry
//	note.go      what the logs of agents get of signals
//	file.go      what a signal and a filing are judged by when they come in
//	rate.go      how many disputes an agent may open
//	judge.go     what loses; timing.go, consistency.go and knowledge.go have the rules of each type
//	decide.go    what ends a dispute, and whose word that is
//	token.go     the tokens: the resolution, the arbiter's decision, the root of the log
package dispute
