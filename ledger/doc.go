// Package ledger keeps, durably, which single-use keys have been used, and the record of every call.
//
// # What it promises
//
//   - A key is consumed by exactly one caller, for good, before anything rests on it.
//   - The intent to forward a post is durable in the same transaction, before the first byte of the post goes out.
//   - A post whose outcome was lost in a crash becomes indeterminate, and is never sent again.
//
// A [Store] makes these promises: package ledger/sqlite has the store in a file of one process, package ledger/postgres
// the one in a database that several processes share. Package test/ledgertest has the tests that both must pass.
//
// # Where things are
//
//	store.go     Store: what every ledger does; Key, Query and KeyUse
//	record.go    Record: what is kept of a call, its states, its JSON
//	receipt.go   OpenCall and Receipt: the calls of which receipts are to be made, and the chains of receipts
//	delivery.go  Delivery: how far receipts were handed over
//	error.go     the errors, and their codes
//	identity.go  Identity: what tells a ledger from another, and from an older copy of itself
//	watched.go   Watched: a store that is held against what was seen of it before
//	queue.go     Queue: the records that no caller waits for, between the sidecar and its store
package ledger
