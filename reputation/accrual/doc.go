// Package accrual computes the reputation of an agent from its log of scored sessions and ended disputes (seed 003:
// Reputation Accrual). It has no clock, store or network: the same log always gives the same reputation, byte for byte.
//
//	agent.go       agent ids
//	entry.go       the entries of a log; note.go those that only package rating uses
//	account.go     the log and its hash chain
//	points.go      the points that disputes add and take
//	reputation.go  what follows from the log; tier.go the tiers
//	token.go       the reputation+jwt and its checks
//
// A reputation is a likelihood. It never proves that no human was involved.
package accrual
