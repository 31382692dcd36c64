// Package autonomy computes the autonomy score of one session from its interaction receipts (VIN v0.4). It is pure: no input or output, no clock,
// and of cryptography only hashes. The formulas are data with a version and a hash, formulas.json; docs/autonomy.md explains each of them.
//
// A [Session] takes verified receipts one by one, and [Appraise] computes the [Score] of what it has taken so far. [Claims] are those of the
// token that carries a score. A [Baseline] is made of the [Sample]s of an owner's earlier sessions.
//
// # Files
//
//	formulas.go   the constants, their version and hash
//	session.go    what is kept of the receipts of a session
//	challenge.go  challenges, and what became of them
//	parts.go      the parts of all signals, the composite, the interval
//	timing.go, recursion.go, knowledge.go, entropy.go  the parts of the first four signals
//	score.go      the score, and the seed's fields in it
//	baseline.go   samples and baselines
//	claims.go     the claims of the token
//	stat.go       medians, variances, slopes
package autonomy
