// Package records has the commands about the record: posts, events, explain and ledger. Other groups of commands
// select records by the flags that are defined here ([SelectionFlags], [Source]), and draw a chain of evidence as the
// tree here ([Chain], [DrawChain]).
package records
