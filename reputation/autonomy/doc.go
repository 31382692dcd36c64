// Package autonomy computes the autonomy score of one session from its interaction receipts (VIN v0.4). It does no I/O
// and has no clock. The formulas are data with a version and a hash (formulas.json); docs/autonomy.md explains them.
//
// A [Session] takes verified receipts one by one, and [Appraise] computes the [Score] so far. [Claims] go into the
// token that carries a score. A [Baseline] is made of [Sample]s of an owner's earlier sessions.
package autonomy
