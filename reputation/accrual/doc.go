// Package accrual computes the reputation of an agent from its log of scored sessions and ended disputes (seed 003:
// Reputation Accrual). It has no clock, store or network: the same log always gives the same reputation, byte for byte.
//
// A reputation is a likelihood. It never proves that no human was involved.
package accrual
