// Package rating computes R, seed 002's rating of an agent that publishes signals, from the agent's log (package
// accrual). It has no clock, store or network: the same log always gives the same rating, byte for byte. R and the
// score are independent of each other.
package rating
