// Package rating computes R, the rating that seed 002 gives an agent who publishes signals, from the agent's log (package accrual): its scored
// sessions, its signals, the disputes that it was a party of, and its breaches of the rules against spam. It is pure: no clock, no store, no
// network. The same log always gives the same rating, byte for byte.
//
//	formula.go  the formula: factors from inputs, R from factors, one step, the tiers
//	history.go  what the log has said so far, and the inputs that follow
//	account.go  the log of one agent, entry by entry, and one step a day
//
// R stands beside the score of package accrual. Neither is computed from the other. No dispute between two agents is in the log of a third one.
package rating
