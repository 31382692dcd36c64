// Package verifications has the commands about verifications: those by which a developer walks one by hand, as an agent would, and those by
// which an operator looks at the node's.
package verifications
