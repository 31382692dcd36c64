// Package accrual computes the reputation of an agent from its log of scored sessions and ended disputes (seed 003:
// Reputation Accrual), and R, its rating (seed 002). It has no clock, store or network: the same log always gives the
// same reputation and rating, byte for byte.
//
//	entry.go, note.go  the entries of the log; form.go their form
//	account.go         the log
//	reputation.go      the reputation; points.go and tier.go its parts; token.go its token
//	rating.go          the rating; inputs.go what it is computed from, and factors.go how
//
// A reputation is a likelihood. It never proves that no human was involved.
package accrual
