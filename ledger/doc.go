// Package ledger durably keeps consumed keys and the record of every call.
//
// # What it promises
//
//   - A key is consumed by exactly one caller, for good, before anything relies on it.
//   - The intent to forward a post is durable in the same transaction, before the first byte of the post goes out.
//   - A post whose outcome was lost in a crash becomes indeterminate, and is never sent again.
//
// A [Store] keeps these promises. Package ledger/sqlite stores in one process's file, package ledger/postgres in a
// database that several processes share. Both must pass the tests of package test/ledgertest.
//
// # Where things are
//
//	store.go     Store: what every ledger does; Key, Query and KeyUse
//	record.go    Record: a call's record, its states and JSON
//	receipt.go   OpenCall and Receipt: calls that need a receipt, and chains of receipts
//	delivery.go  Delivery: how far receipts were delivered
//	error.go     the errors, and their codes
//	identity.go  Identity: distinguishes a ledger from others and from its older copies
//	watched.go   Watched: a store compared with its last seen state
//	queue.go     Queue: records that no caller waits for
package ledger
