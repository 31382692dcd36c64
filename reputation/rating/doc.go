// Package rating computes R, seed 002's rating of an agent that publishes signals, from the agent's log (package
// accrual). It has no clock, store or network: the same log always gives the same rating, byte for byte. R and the
// score are independent of each other.
//
//	formula.go  factors from inputs, R from factors, one step
//	history.go  the log so far, and the inputs that follow
//	account.go  the log entry by entry, and one step a day
package rating
