// Package rating computes R, the rating that seed 002 gives an agent who publishes signals, from what the node knows of it: scored sessions,
// published signals, the disputes that it was a party of, and breaches of the rules against spam. It is pure: no clock, no store, no
// network. The same facts always give the same rating, byte for byte.
//
//	fact.go     what the node knows of an agent
//	history.go  the facts up to a moment, and the inputs that follow from them
//	formula.go  the formula: factors from inputs, R from factors, one step, the tiers
//	rating.go   one step a day, over all days
//
// R stands beside the score of package accrual. Neither is computed from the other. No dispute between two agents is a fact of a third one.
package rating
