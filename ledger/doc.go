// Package ledger keeps, durably, which single-use keys have been used, and the record of every call.
//
// # What it promises
//
//   - A key is consumed by exactly one caller, for good, before anything rests on it.
//   - The intent to forward a post is durable in the same transaction, before the first byte of the post goes out.
//   - A post whose outcome was lost in a crash is shown as indeterminate, and is never sent again.
//
// A [Store] makes these promises. [Ledger] is the store in an SQLite file of one process. Package ledger/postgres has
// the store in a database that several processes share. Package test/ledgertest has the tests that both must pass.
//
// # Where things are
//
//	store.go     Store: what every ledger does; Key
//	record.go    Record: what is kept of a call, its states, its JSON
//	receipt.go   OpenCall and Receipt: the calls of which receipts are to be made, and the chains of receipts
//	keyuse.go    KeyUse: which signing keys posts and receipts rest on
//	query.go     which records a list has and in which order, how it is read, and how one is found by the beginning of its id
//	copy.go      Copy: the copy of a ledger's file, to be read only
//	error.go     the errors, and their codes
//	identity.go  Identity: what tells a ledger from another, and from an older copy of itself
//	watched.go   Watched: a store that is held against what was seen of it before
//	queue.go     Queue: the records that no caller waits for, between the sidecar and its store
//	ledger.go    Ledger: keys and records in an SQLite file
//	schema.go    its tables and statements
//	prune.go     what it removes when keys and records have grown old
//	db.go        DB: an SQLite file with one writer; the trigger service keeps its events in one, too
//	writer.go    the writer: it commits all writes that wait in one transaction
//	sqlite.go    how SQLite is opened: its settings, each read back, and the schema
//	lock.go      the lock that gives the file to one process
//	instance.go  the name under which a process shares a database
package ledger
