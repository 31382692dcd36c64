// Package translog keeps a deployment's transparency log. The log shows that no post was left out or changed later, and
// who else saw it. Its formats are defined by c2sp.org (signed-note, tlog-checkpoint, tlog-tiles, tlog-proof,
// tlog-policy, tlog-cosignature, tlog-witness), so other tools can read and verify it.
//
// The ledger stores the entries ([ledger.Log], package leaf). A [Log] numbers the entries, signs
// checkpoints of their tree, and has witnesses cosign them. [Handler] publishes the log. [Policy.Verify] verifies one
// entry offline.
package translog
