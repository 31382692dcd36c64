// Package accrual computes the reputation of an agent from its log: which sessions were scored, and how disputes ended (seed 003:
// Reputation Accrual). It is pure: no clock, no store, no network. The same log always gives the same reputation, byte for byte.
//
//	agent.go       who an agent is
//	entry.go       the entries of a log
//	note.go        the entries that the rating alone rests on (package rating)
//	account.go     the log of one agent, entry by entry, and its hash
//	points.go      what the end of a dispute adds to a score, or takes from it
//	reputation.go  what follows from the log; tier.go the tiers
//	token.go       the reputation+jwt, and what a reader recomputes of it
//
// Nothing here says that no human was involved. A reputation makes it likely that an agent acts by itself, and proves it of no post.
package accrual
