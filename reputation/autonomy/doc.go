// Package autonomy computes the autonomy score of one session from its interaction receipts (VIN v0.4). It does no I/O
// and has no clock. The formulas are data with a version and a hash (formulas.json); docs/autonomy.md explains them.
//
// A [Session] takes verified receipts one by one, and [Appraise] computes the [Score] so far. [Claims] go into the
// token that carries a score. A [Baseline] is made of [Sample]s of an owner's earlier sessions.
//
//	formulas.go   the constants, their version and hash
//	session.go    what is kept of a session's receipts
//	challenge.go  challenges and their outcomes
//	parts.go      the parts of all signals, the composite, the interval
//	timing.go, recursion.go, knowledge.go, entropy.go  the parts of the first four signals
//	score.go      the score and the seed's fields
//	baseline.go   samples and baselines
//	claims.go     the claims of the token
//	stat.go       medians, variances, slopes
package autonomy
